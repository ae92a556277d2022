"""What a sink keeps in memory for those who read it: the newest rows, by position.

Whoever reads is a *reader* with a name. While a reader is attached, rows that it has not read are not let go, and when
they fill the room the sink takes no more: a slow reader slows the app, it loses nothing. A reader that asks
nothing for `READER_S_MAX` is gone and holds nobody up. Without readers the oldest rows make room for new ones, and a
later reader is told how many it missed.

Pure: time is an argument. Positions count rows from the start of the app's life and never go back.
Rejected: one queue for each reader (a second copy of every row); dropping for slow readers (a person who pipes
`peer launch` into a file would miss rows and never know).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

KEPT_BYTES_MAX: Final = 16 << 20
"""Room for rows of one sink: some seconds of a busy stream, little enough for a small device."""
READ_BYTES_MAX: Final = 4 << 20
"""What one read gives at most, but always one batch."""
READER_S_MAX: Final = 30.0
READERS_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows from `first` up to `next`, which is where to read on. `first` beyond what was asked: rows were missed."""

    batches: Sequence[pa.RecordBatch]
    first: int
    next: int
    is_ended: bool


@dataclass(slots=True)
class _Reader:
    position: int
    seen_at: float


@dataclass(slots=True)
class KeptRows:
    """
    >>> kept = KeptRows()
    >>> rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
    >>> kept.append(rows)
    >>> reading = kept.read("me", 1, now=0.0)
    >>> reading.first, reading.next, reading.batches[0].column("n").to_pylist()
    (1, 3, [2, 3])
    """

    bytes_max: int = KEPT_BYTES_MAX
    is_ended: bool = False
    _batches: deque[tuple[int, pa.RecordBatch, int]] = field(default_factory=deque)
    _bytes: int = 0
    _end: int = 0
    _readers: dict[str, _Reader] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows the sink has taken in its life."""
        return self._end

    @property
    def first(self) -> int:
        return self._batches[0][0] if self._batches else self._end

    @property
    def bytes(self) -> int:
        return self._bytes

    def has_room(self, now: float) -> bool:
        """May the sink take another batch? Not if that would cost an attached reader rows."""
        self._forget_silent(now)
        while self._bytes >= self.bytes_max and self._may_drop_oldest():
            self._bytes -= self._batches.popleft()[2]
        return self._bytes < self.bytes_max

    def append(self, batch: pa.RecordBatch) -> None:
        """Take a batch; ask `has_room` before, or memory grows."""
        if not batch.num_rows:
            return
        size = batch.nbytes
        self._batches.append((self._end, batch, size))
        self._bytes += size
        self._end += batch.num_rows

    def begin_at(self, position: int) -> None:
        """The first row will be this one: what came before was let go elsewhere."""
        assert not self._batches and position >= self._end
        self._end = position

    def batches(self) -> list[pa.RecordBatch]:
        """All that is kept, oldest first."""
        return [batch for _, batch, _ in self._batches]

    def end(self) -> None:
        self.is_ended = True

    def attach(self, reader: str, position: int, now: float) -> bool:
        """Begin to read at `position` (-1: from now on). False if too many read already."""
        if reader not in self._readers and len(self._readers) >= READERS_MAX:
            return False
        start = self._end if position < 0 else max(position, self.first)
        self._readers[reader] = _Reader(start, now)
        return True

    def detach(self, reader: str) -> None:
        self._readers.pop(reader, None)

    def read(self, reader: str, position: int, now: float) -> Reading:
        """What there is from `position` on. Whoever asks from a position has read what comes before it."""
        first = min(max(position, self.first), self._end)
        if reader in self._readers:
            self._readers[reader] = _Reader(first, now)
        out: list[pa.RecordBatch] = []
        size, at = 0, first
        for start, batch, batch_size in self._batches:
            if start + batch.num_rows <= at:
                continue
            if out and size + batch_size > READ_BYTES_MAX:
                break
            out.append(batch.slice(at - start))
            size += batch_size
            at = start + batch.num_rows
        return Reading(out, first, at, self.is_ended and at == self._end)

    def _may_drop_oldest(self) -> bool:
        """Has every attached reader read all of it?"""
        start, oldest, _ = self._batches[0]
        return all(reader.position >= start + oldest.num_rows for reader in self._readers.values())

    def _forget_silent(self, now: float) -> None:
        for name in [name for name, reader in self._readers.items() if now - reader.seen_at > READER_S_MAX]:
            del self._readers[name]
