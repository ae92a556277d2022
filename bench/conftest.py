"""Engines import what only their own environments have: their files are checked by running them."""

collect_ignore_glob = ["engines/*", "row_apps/*"]
