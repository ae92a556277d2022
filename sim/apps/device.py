"""A device with a source: rows come at a rate, go through the log on its disk, and are fed from there.

Whoever sends to the device keeps what the device has not called safe, and sends it again: so after a crash reading goes
on where the log ends. But such a row carries another value (`x`): if the first had been shown, that would be seen.

The end of the stream is a mark in the log. It comes when the world says so (`ends_at`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import msgpack

from dataflow.messages import Data, End, Message
from recovery.disk import Disk, DiskError
from recovery.source_log.log import SourceLog
from sim.apps.app import batch_of, row

ROWS: Final = 0
END: Final = 1
POLL_S: Final = 0.15
BATCH_ROWS: Final = 6
SEGMENT_BYTES: Final = 512


class Device:
    """What is outside of the peer and does not crash with it: the sender, and what it remembers of each row."""

    def __init__(self, source: str, schema: object, rng: Random, *, rows_per_s: float, starts_at: float) -> None:
        self.source = source
        self.rows: dict[int, int] = {}
        self.ends_at: int | None = None
        self._schema = schema
        self._rng = rng
        self._rate = rows_per_s
        self._starts_at = starts_at

    def count_at(self, now: float) -> int:
        """How many rows there are by now."""
        made = max(0, int((now - self._starts_at) * self._rate))
        return made if self.ends_at is None else min(made, self.ends_at)

    def end(self, now: float) -> None:
        """No row will be made after those that there are."""
        self.ends_at = max(self.count_at(now), max(self.rows, default=-1) + 1)


class Reader:
    """One generation's reading of a device, on one boot of its peer."""

    def __init__(self, device: Device, log: SourceLog, generation: int, offset: int) -> None:
        self.generation = generation
        self._device = device
        self._log = log
        self._at = offset
        self._is_ended = False

    def read(self, now: float) -> tuple[Message, int] | None:
        """The next message and its units, from the log or new; None if there is nothing just now."""
        if self._is_ended:
            return None
        found = self._log.read_from(self._at, bytes_max=1)
        if not found:
            if not self._append(now):
                return None
            found = self._log.read_from(self._at, bytes_max=1)
        entry = found[0]
        if entry.kind == END:
            self._is_ended = True
            return End(), 0
        rows = msgpack.unpackb(bytes(entry.payload))[entry.skip :]
        self._at = entry.start + entry.count
        device = self._device
        made = [row(device.source, entry.start + entry.skip + at, x) for at, x in enumerate(rows)]
        return Data(batch_of(made, device._schema)), len(made)

    def _append(self, now: float) -> bool:
        device, start = self._device, self._log.end
        count = min(device.count_at(now) - start, BATCH_ROWS)
        try:
            if count <= 0:
                if device.ends_at is None or start < device.ends_at:
                    return False
                self._log.append(END, 0, b"")
                return True
            drawn = [device._rng.randrange(1000) for _ in range(count)]
            # Before: if the power goes right behind the write, the log has them and nobody was told.
            device.rows.update({start + at: x for at, x in enumerate(drawn)})
            self._log.append(ROWS, count, msgpack.packb(drawn))
        except DiskError:
            return False  # it is full: the source waits
        return True


def open_log(disk: Disk, name: str, committed: int) -> SourceLog:
    return SourceLog(disk, name, committed=committed, segment_bytes=SEGMENT_BYTES, bytes_max=1 << 24)


Say = Callable[[str, str], None]
