"""Where the instances of an app go, who decides it, and whether there is room: all of it pure."""
