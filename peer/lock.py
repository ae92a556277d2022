"""One peer for each folder: whoever runs holds the lock of its folder.

    with hold(data):
        ...

The system drops the lock with the process, however that ends, so there is no such thing as a stale one. The
file stays, for whoever removed it could remove the lock of somebody who has just opened it; it says which
process was the last to hold it.

Rejected: a file whose existence is the lock (after `kill -9` a person would have to delete it); the control
socket alone (between the question whether somebody answers and the binding, another may do the same).
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peer.complaint import Complaint, about_file
from peer.places import SECRET_MODE, lock_file, make_folder

PID_BYTES_MAX = 20


@contextmanager
def hold(data: Path) -> Iterator[None]:
    """Be the only process that runs a peer in `data`, or a `Complaint`."""
    path = lock_file(make_folder(data))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, SECRET_MODE)
    except OSError as error:
        raise about_file(error, path) from None
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, PID_BYTES_MAX, 0).decode("ascii", "replace")
        who = f"A peer already runs with its data in {path.parent}"
        raise Complaint(
            f"{who}: process {holder}." if holder else f"{who}.",
            "Let it go on, end it with `peer leave`, or give this one another folder with --data.",
        ) from None
    except OSError as error:
        raise about_file(error, path) from None
