"""Keyed state: dense slots, numpy columns, snapshots as plain bytes."""
