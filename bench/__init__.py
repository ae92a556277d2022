"""Measurements on real processes. Each file runs alone: `python -m bench.NAME [-o json]`."""
