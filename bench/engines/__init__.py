"""One file an engine, each run as a process of its own in an environment of its own."""
