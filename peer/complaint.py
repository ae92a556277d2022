"""Say what is wrong and the way out, in a sentence each, instead of a traceback.

Whatever a person can cause (a wrong flag, a missing file, no running peer) ends as a `Complaint`: click
prints it and exits with 1. A traceback from `peer` is therefore always a bug of ours.
"""

import errno
from pathlib import Path

import click


class Complaint(click.ClickException):
    """What is wrong, then what to do about it."""

    def __init__(self, fact: str, way_out: str) -> None:
        super().__init__(f"{fact}\n{way_out}")


def about_file(error: OSError, path: Path) -> Complaint:
    """The complaint for a file or folder that the system would not let us use."""
    if isinstance(error, PermissionError):
        return Complaint(
            f"No permission for {path}.", "Run as its owner, or choose another folder with --data."
        )
    if error.errno == errno.ENOSPC:
        return Complaint(f"No space is left for {path}.", "Free some, or choose another folder with --data.")
    return Complaint(f"Cannot use {path}: {error.strerror or error}.", "Choose another folder with --data.")
