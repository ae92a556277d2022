"""State as bytes: a few Arrow tables and marks, in msgpack. Never pickle.

A table whose columns begin with `key0` belongs to keys and can be split by their hash; any other table is
copied to every part. A *base* holds everything, a *delta* what changed since the last snapshot: rows to put
and rows to remove. Marks are small numbers (how far windows are closed); parts that merge take the lowest.

Promises: restore(snapshot(s)) = s; splitting by any ranges and merging = s; deltas over a base = the full state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

import msgpack
import numpy as np
import pyarrow as pa

from dataflow.batches import Bools, keep
from dataflow.errors import AppError
from dataflow.operators.base import Operator
from dataflow.state.hashing import hash_columns

HASH_END = 1 << 64
FORMAT = 1


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys whose hash lies in [low, high)."""

    low: int = 0
    high: int = HASH_END

    def mask(self, columns: Sequence[pa.Array], rows: int) -> Bools:
        hashes = hash_columns(columns, rows)
        inside = hashes >= np.uint64(self.low)
        return inside if self.high >= HASH_END else inside & (hashes < np.uint64(self.high))


def even_ranges(parts: int) -> list[KeyRange]:
    """The whole hash space in equal parts."""
    edges = [HASH_END * at // parts for at in range(parts + 1)]
    return [KeyRange(low, high) for low, high in pairwise(edges)]


Tables = dict[str, pa.RecordBatch]


@dataclass(slots=True)
class Snapshot:
    kind: str
    delta: bool
    marks: dict[str, int]
    tables: Tables = field(default_factory=dict)
    removed: Tables = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """What it holds, before it is encoded."""
        return sum(table.nbytes for group in (self.tables, self.removed) for table in group.values())

    def encode(self) -> bytes:
        tables, removed = ({n: _to_ipc(t) for n, t in group.items()} for group in (self.tables, self.removed))
        return cast(bytes, msgpack.packb([FORMAT, self.kind, self.delta, self.marks, tables, removed]))

    @classmethod
    def decode(cls, data: bytes) -> Snapshot:
        try:
            version, kind, delta, marks, tables, removed = msgpack.unpackb(data, strict_map_key=False)
            if version != FORMAT:
                raise ValueError(f"format {version}")
            tables, removed = ({n: _from_ipc(t) for n, t in group.items()} for group in (tables, removed))
            return cls(kind, bool(delta), {str(n): int(v) for n, v in marks.items()}, tables, removed)
        except (ValueError, TypeError, AttributeError, pa.ArrowException, msgpack.UnpackException) as error:
            raise AppError(f"these bytes are not a snapshot: {error}") from error

    def part(self, key_range: KeyRange) -> Snapshot:
        """Only what belongs to keys of a range."""
        tables, removed = (
            {name: _rows_in(table, key_range) for name, table in group.items()} for group in (self.tables, self.removed)
        )
        return Snapshot(self.kind, self.delta, dict(self.marks), tables, removed)

    def rows(self) -> dict[str, list[str]]:
        """The content without its order, to compare two states."""
        return {name: sorted(repr(row) for row in table.to_pylist()) for name, table in self.tables.items()}


def key_columns(table: pa.RecordBatch) -> list[pa.Array]:
    return [table.column(at) for at, name in enumerate(table.schema.names) if name.startswith("key")]


def _rows_in(table: pa.RecordBatch, key_range: KeyRange) -> pa.RecordBatch:
    columns = key_columns(table)
    if not columns and "key" not in (table.schema.metadata or {}).get(b"owned", b"").decode():
        return table
    return keep(table, key_range.mask(columns, table.num_rows))


def _to_ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return cast(bytes, sink.getvalue().to_pybytes())


def _from_ipc(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()


def keyed_table(keys: Sequence[pa.Array], columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A table that belongs to keys; with no key column all rows belong to the one global key."""
    names = [f"key{at}" for at in range(len(keys))]
    table = pa.RecordBatch.from_arrays([*keys, *columns.values()], names=[*names, *columns])
    return table.replace_schema_metadata({b"owned": b"key"})


class Stateful(Operator):
    """The five ways state leaves and enters an operator; subclasses say what their tables are."""

    is_tracked = False  # what changes need not be remembered before there is a snapshot for it to change

    def snapshot_base(self) -> bytes:
        return self.snapshot(changed=False).encode()

    def snapshot_delta(self) -> bytes:
        return self.snapshot(changed=True).encode()

    def snapshot(self, *, changed: bool) -> Snapshot:
        """A copy of all state, or of what changed; to be encoded at leisure, while the operator goes on."""
        tables, removed = self.dump(changed=changed)
        self.clean()
        self.is_tracked = True
        return Snapshot(self._kind(), changed, self.marks(), tables, removed)

    def restore(self, base: bytes, deltas: Sequence[bytes] = ()) -> None:
        """Into an operator that is new."""
        for data in (base, *deltas):
            self._take(Snapshot.decode(data))
        self.clean()
        self.is_tracked = True

    def split(self, key_range: KeyRange) -> bytes:
        """A base snapshot of the keys of a range; nothing is removed here."""
        tables, _ = self.dump(changed=False)
        return Snapshot(self._kind(), False, self.marks(), tables).part(key_range).encode()

    def merge(self, parts: Sequence[bytes]) -> None:
        """Take in parts that other instances split off; into a new operator they become its state."""
        for data in parts:
            snapshot = Snapshot.decode(data)
            self._check_kind(snapshot)
            for name, table in snapshot.tables.items():
                self.load(name, table)
        marks = [Snapshot.decode(data).marks for data in parts]
        if marks:
            known = [name for name in marks[0] if all(name in mark for mark in marks)]
            self.set_marks({name: min(mark[name] for mark in marks) for name in known})

    def _take(self, snapshot: Snapshot) -> None:
        self._check_kind(snapshot)
        for name, table in snapshot.removed.items():
            self.remove(name, table)
        for name, table in snapshot.tables.items():
            self.load(name, table)
        self.set_marks(snapshot.marks)

    def _check_kind(self, snapshot: Snapshot) -> None:
        if snapshot.kind != self._kind():
            raise AppError(f"a snapshot of {snapshot.kind} was given to {self._kind()}")

    def _kind(self) -> str:
        return type(self).__name__

    # What a stateful operator says about itself:

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        """Tables to put and tables to remove (all rows, or those that changed since `clean`)."""
        raise NotImplementedError

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        raise NotImplementedError

    def remove(self, name: str, rows: pa.RecordBatch) -> None:
        raise AssertionError(f"{self._kind()} never removes rows of {name}")

    def clean(self) -> None:
        """What is there now has been snapshotted."""

    def marks(self) -> dict[str, int]:
        return {}

    def set_marks(self, marks: dict[str, int]) -> None:
        """Take over marks; state that they declare closed goes."""
