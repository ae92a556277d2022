"""Where rows come from and go to: thin shells around files, sockets and terminals."""
