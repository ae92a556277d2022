"""A finished stream: what a sink has taken, shown when its epoch is committed, and never changed after.

    take      rows arrive, and are put aside
    close     the token: what lies aside is a segment that ends at an absolute position
    show      its epoch is committed: readers may have it

The rows that are kept are the state of the sink, like any operator's: a part for each epoch, erasure-coded and restored
like any other. So the death of a sink's peer is nothing special, and a reader goes on at its position elsewhere.

What is aside cannot be dropped, and only a commit can show it. So `has_room` is true while a token is on its way,
however full it is here: rows in front of that token are few (credit bounds them), and behind it there is room again.

Promises: positions have no gap and no double; what was shown once is the same for ever, on whichever peer; `restore` of
the parts of an epoch gives the stream of that epoch. Pure.
Rejected: a segment file of its own beside the snapshot (two truths about one row); showing rows at once and taking them
back (that is `at-least-once`, for those who ask for it: `is_eager`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack
import pyarrow as pa

from dataflow.errors import AppError
from dataflow.hosting.kept_rows import KeptRows

ASIDE_BYTES_MAX: Final = 64 << 20
"""Rows that may wait for their epoch: a second of a fast stream."""
DELTAS_MAX: Final = 16
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class StreamPart:
    """What `close` gives to be stored. Encoding takes time, and may be done on any thread."""

    schema: pa.Schema
    batches: Sequence[pa.RecordBatch]
    end: int
    first: int
    is_base: bool

    def encode(self) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.schema) as writer:
            for batch in self.batches:
                writer.write_batch(batch)
        raw: bytes = msgpack.packb([FORMAT, self.is_base, self.first, self.end, sink.getvalue().to_pybytes()])
        return raw


@dataclass(slots=True)
class _Segment:
    epoch: int
    end: int
    is_last: bool
    batches: list[pa.RecordBatch]


@dataclass(slots=True)
class FinishedStream:
    schema: pa.Schema
    is_eager: bool = False
    kept: KeptRows = field(default_factory=KeptRows)
    aside_bytes_max: int = ASIDE_BYTES_MAX
    end: int = 0
    """Rows taken, shown or not."""
    is_ended: bool = False
    _aside: list[pa.RecordBatch] = field(default_factory=list)
    _aside_bytes: int = 0
    _segments: deque[_Segment] = field(default_factory=deque)
    _deltas: int | None = None  # None: there is no base yet
    _delta_bytes: int = 0
    _awaited: int = 0
    _closed: int = 0

    def has_room(self, now: float) -> bool:
        if self._awaited > self._closed:
            return True
        return self._aside_bytes < self.aside_bytes_max and self.kept.has_room(now)

    @property
    def wants_epoch(self) -> bool:
        """Is it nearly full of what only a commit can show? Or are these its first rows, for which somebody waits?"""
        is_first = self._aside_bytes > 0 and not self.kept.rows
        return (is_first or 2 * self._aside_bytes >= self.aside_bytes_max) and self._awaited <= self._closed

    def await_token(self, epoch: int) -> None:
        """A token is on its way here."""
        self._awaited = max(self._awaited, epoch)

    def take(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self.end += batch.num_rows
        self._aside.append(batch)
        self._aside_bytes += batch.nbytes
        if self.is_eager:
            self.kept.append(batch)

    def finish(self) -> None:
        """Nothing follows."""
        self.is_ended = True

    def close(self, epoch: int) -> StreamPart:
        """The token is here: the segment ends. Its part of the snapshot, to be stored before the epoch may stand."""
        self._closed = max(self._closed, epoch)
        is_base = self._deltas is None or self._deltas >= DELTAS_MAX or self._delta_bytes > 2 * self.kept.bytes_max
        self._segments.append(_Segment(epoch, self.end, self.is_ended, self._aside))
        batches, self._aside = self._aside, []
        if not is_base:
            assert self._deltas is not None
            self._deltas += 1
            self._delta_bytes += sum(batch.nbytes for batch in batches)
            return StreamPart(self.schema, batches, self.end, self.kept.first, False)
        self._deltas = self._delta_bytes = 0
        hidden = [batch for segment in self._segments for batch in segment.batches]
        everything = self.kept.batches() if self.is_eager else [*self.kept.batches(), *hidden]
        return StreamPart(self.schema, everything, self.end, self.kept.first, True)

    def rebase(self) -> None:
        """A part could not be stored: the next one must not need it."""
        self._deltas = None

    def roll_back(self, end: int) -> bool:
        """A new generation begins where this much was shown: what lies aside will come again.

        False if what was shown here is not what was committed: then the stream has to be restored.
        """
        self._aside, self._aside_bytes = [], 0
        self._segments.clear()
        self._awaited = self._closed = 0
        self.end = self.kept.rows
        self.is_ended = self.kept.is_ended
        if self.is_eager:
            self.rebase()  # what was shown stays shown: rows that come again get positions of their own
            return True
        return self.kept.rows == end

    def show(self, epoch: int) -> list[pa.RecordBatch]:
        """The epoch stands. What readers can see from now on."""
        shown: list[pa.RecordBatch] = []
        while self._segments and self._segments[0].epoch <= epoch:
            segment = self._segments.popleft()
            for batch in segment.batches:
                self._aside_bytes -= batch.nbytes
                if not self.is_eager:
                    self.kept.append(batch)
            shown += segment.batches
            if segment.is_last:
                self.kept.end()
        return shown

    def restore(self, parts: Sequence[bytes], *, end: int) -> None:
        """Into a new one: the stream as of a committed epoch, which was shown up to `end`."""
        decoded = [_decode(part, self.schema) for part in parts]
        first = decoded[-1].first if decoded else end
        self.kept.begin_at(min(first, end))
        self.end = end
        for part in decoded:
            at = part.end - sum(batch.num_rows for batch in part.batches)
            for batch in part.batches:
                skip = max(0, self.kept.rows - at)
                at += batch.num_rows
                self.kept.append(batch.slice(min(skip, batch.num_rows)))
        if self.kept.rows != end:
            raise AppError(f"the parts of a finished stream end at {self.kept.rows}, but {end} rows were committed")
        self._deltas = len(parts) - 1 if parts else None
        self._delta_bytes = sum(len(part) for part in parts[1:])


@dataclass(frozen=True, slots=True)
class _Decoded:
    batches: list[pa.RecordBatch]
    end: int
    first: int


def _unpack(part: bytes) -> list[Any]:
    try:
        value = msgpack.unpackb(part, max_map_len=0, max_ext_len=0)
        if type(value) is not list or len(value) != 5 or value[0] != FORMAT:
            raise ValueError("format")
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise AppError(f"these bytes are no part of a finished stream: {error}") from None
    return value


def _decode(part: bytes, schema: pa.Schema) -> _Decoded:
    _, _, first, end, rows = _unpack(part)
    try:
        with pa.ipc.open_stream(pa.py_buffer(rows)) as reader:
            if not reader.schema.equals(schema):
                raise AppError("a finished stream was stored under another schema")
            return _Decoded(list(reader), int(end), int(first))
    except pa.ArrowException as error:
        raise AppError(f"these bytes are no part of a finished stream: {error}") from None
