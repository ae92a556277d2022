"""One process per device: everything wired together, and the command line that speaks to it."""
