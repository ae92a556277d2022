"""Fragments of other peers, kept; our own, given away."""
