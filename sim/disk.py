"""A disk that keeps its promises and nothing more: in memory, with every fault of a real one as a named option.

A *point* is an instant at which a power cut makes a difference: before and after each append, sync, rename, truncation
and deletion. Points are numbered from one; `cut_power_at` names the one at which the power goes, as `PowerCut`. After
that the disk does nothing until `reboot`, which leaves what was promised, and of what was not, whatever the rng likes:
a tail that was not synced is lost from some byte on, or torn in its middle; a file that was deleted is back.

Pure but for its rng. Time is not spent here: a slow disk says how long it would have taken (`take_delay_s`), and the
simulated peer waits as long.
Rejected: faults in the real `Folder` by patching `os` (they would not be the same on every file system).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from recovery.disk import DiskFull

SECTOR_BYTES: Final = 512
"""What a disk writes at once: a tail is torn in sectors, not in bytes."""


class PowerCut(BaseException):
    """Not an error of the disk: nobody is left to handle it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFaults:
    """All zero: a disk that only loses what was not synced."""

    room_bytes: int = 0
    """What fits; zero: no limit. An append that does not fit writes a part of itself."""

    full: float = 0.0
    """Share of appends and puts that find the disk full, though there is room the next time."""

    torn: float = 0.0
    """Share of tails whose sectors reach the disk in any order, so that a crash leaves holes of zeros or old bytes."""

    flips: float = 0.0
    """Share of files in which a crash flips one bit, synced or not."""

    flips_unsynced: float = 0.0
    """The same, but only in what was not promised."""

    returns: float = 0.5
    """Share of deleted files that are back after a crash: a deletion promises nothing."""

    slow_s: float = 0.0
    """How long a sync or put takes at most."""


@dataclass(slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    synced: int = 0  # bytes that are there for good


class SimDisk:
    """
    >>> disk = SimDisk(Random(1))
    >>> disk.append("log", b"promised"); disk.sync("log"); disk.append("log", b"not")
    >>> disk.reboot()
    >>> disk.get("log").startswith(b"promised")
    True
    """

    def __init__(self, rng: Random, faults: DiskFaults | None = None) -> None:
        self.points = 0
        """How many have been passed."""
        self.cut_power_at = 0
        self.is_off = False
        self.syncs = 0
        self.fulls = 0
        self.tears = 0
        """How often each has struck."""
        self._rng = rng
        self.faults = faults or DiskFaults()
        self._files: dict[str, _File] = {}
        self._deleted: dict[str, _File] = {}
        self._renames: dict[str, _File | None] = {}  # what a put replaced, until the folder is synced
        self._delay_s = 0.0

    # -- what recovery asks of a disk --

    def put(self, name: str, data: bytes | memoryview) -> None:
        self._require_room(len(data))
        self._point()  # before the rename: the old content stays
        self._renames[name] = self._files.get(name)
        self._files[name] = _File(bytearray(data), len(data))
        self._deleted.pop(name, None)
        self._point()  # renamed, but the folder is not synced: either may be there
        del self._renames[name]
        self._spend()
        self._point()  # there for good, though nobody heard of it

    def get(self, name: str) -> bytes | None:
        self._require_power()
        file = self._files.get(name)
        return bytes(file.data) if file else None

    def read(self, name: str, start: int, size: int) -> bytes:
        self._require_power()
        file = self._files.get(name)
        return bytes(memoryview(file.data)[start : start + size]) if file else b""

    def append(self, name: str, data: bytes | memoryview) -> None:
        self._point()
        file = self._files.setdefault(name, _File())
        self._deleted.pop(name, None)
        try:
            self._require_room(len(data))
        except DiskFull:
            file.data += memoryview(data)[: self._rng.randrange(len(data) + 1)]
            raise
        file.data += data
        self._point()

    def sync(self, name: str) -> None:
        self._point()
        self.syncs += 1
        self._spend()
        file = self._files[name]
        file.synced = len(file.data)
        self._point()

    def size(self, name: str) -> int:
        self._require_power()
        return len(self._files[name].data) if name in self._files else 0

    def truncate(self, name: str, size: int) -> None:
        self._point()
        file = self._files[name]
        del file.data[size:]
        file.synced = min(file.synced, size)
        self._point()

    def delete(self, name: str) -> None:
        self._point()
        file = self._files.pop(name, None)
        if file is not None:
            self._deleted[name] = file
        self._point()

    def names(self, prefix: str = "") -> list[str]:
        self._require_power()
        return sorted(name for name in self._files if name.startswith(prefix))

    # -- what happens to it --

    def crash(self) -> None:
        """The power goes now."""
        self.is_off = True

    def reboot(self) -> None:
        """Power again: what was promised is there, and some of what was not."""
        for name, old in sorted(self._renames.items()):
            if self._rng.random() < 0.5:
                if old is None:
                    del self._files[name]
                else:
                    self._files[name] = old
        for name, file in sorted(self._deleted.items()):
            if self._rng.random() < self.faults.returns:
                self._files[name] = file
        for name, file in sorted(self._files.items()):
            self._lose(file)
            if not file.data and self._rng.random() < 0.5:
                del self._files[name]  # made, but its folder was not synced
        self._renames.clear()
        self._deleted.clear()
        self.is_off = False
        self.cut_power_at = 0

    def flip(self, name: str, bit: int) -> None:
        """Damage one bit, by hand."""
        self._files[name].data[bit // 8] ^= 1 << bit % 8

    def take_delay_s(self) -> float:
        """How long the calls since the last time would have taken."""
        delay_s, self._delay_s = self._delay_s, 0.0
        return delay_s

    def _lose(self, file: _File) -> None:
        end = self._rng.randint(file.synced, len(file.data))
        if self._rng.random() < self.faults.torn:
            self.tears += len(file.data) > file.synced
            end = len(file.data)
            first = -(-file.synced // SECTOR_BYTES) * SECTOR_BYTES
            for at in [file.synced, *range(first, end, SECTOR_BYTES)]:
                size = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES) - at
                if self._rng.random() < 0.5:
                    file.data[at : at + size] = bytes(size)
        del file.data[end:]
        if len(file.data) > file.synced and self._rng.random() < self.faults.flips_unsynced:
            file.data[self._rng.randrange(file.synced, len(file.data))] ^= 1 << self._rng.randrange(8)
        if file.data and self._rng.random() < self.faults.flips:
            file.data[self._rng.randrange(len(file.data))] ^= 1 << self._rng.randrange(8)
        file.synced = len(file.data)  # what can be read after a power cut has reached the disk

    def _point(self) -> None:
        self._require_power()
        self.points += 1
        if self.points == self.cut_power_at:
            self.is_off = True
            raise PowerCut(f"at point {self.points}")

    def _require_power(self) -> None:
        if self.is_off:
            raise PowerCut("the disk is off")

    def _require_room(self, size: int) -> None:
        self._require_power()
        used = sum(len(file.data) for file in self._files.values())
        no_room = self.faults.room_bytes and used + size > self.faults.room_bytes
        if no_room or self._rng.random() < self.faults.full:
            self.fulls += 1
            raise DiskFull("the simulated disk is full; free some room or raise the quota")

    def _spend(self) -> None:
        if self.faults.slow_s:
            self._delay_s += self._rng.uniform(0.0, self.faults.slow_s)
