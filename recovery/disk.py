"""What recovery asks of a disk: whole files that are there after a crash, and logs that grow.

    put      all of it or none of it, and there for good once `put` has returned
    append   at the end of a log; there for good once `sync` has returned, and maybe partly before
    get, names, size, delete   what anybody would expect

The one place where a fault of a disk can be made: `Folder` is the real one, the simulator's tears, fills and flips.
Whoever reads back checks a sum of its own: a disk promises bytes, not the right ones.

Calls block. Machines never call them: they say what to store and are told when it is stored.
Rejected: an async interface (no file system has one; a thread does as well, and the simulator needs none).
"""

from __future__ import annotations

from typing import Protocol


class DiskError(Exception):
    """The disk did not do it. The sentence names the file and what to do."""


class DiskFull(DiskError):  # noqa: N818 (it says what is)
    """There is no room: nothing was written, or only a part of an append that was not synced."""


class Disk(Protocol):
    """A flat folder. Names are letters, digits, dots, dashes and underscores."""

    def put(self, name: str, data: bytes | memoryview) -> None: ...

    def get(self, name: str) -> bytes | None:
        """All of a file, or None if there is none."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """So many bytes from `start` on; fewer at the end, none if there is no such file."""

    def append(self, name: str, data: bytes | memoryview) -> None: ...

    def sync(self, name: str) -> None: ...

    def size(self, name: str) -> int: ...

    def truncate(self, name: str, size: int) -> None:
        """Cut the end off, for good."""

    def delete(self, name: str) -> None:
        """It need not be there."""

    def names(self, prefix: str = "") -> list[str]:
        """Sorted; without the remains of a `put` that a crash cut short."""
