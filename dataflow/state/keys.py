"""The keys of an operator's state: columns in, slots out, and columns again.

One integer-like key column without nulls is its own identity; anything else is known by 128 bits of hash.
The values themselves are kept once a slot, so that results can name them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import Bools, Ints, Words, int64s, is_int64_like
from dataflow.state.columns import Column
from dataflow.state.hashing import SEEDS, hash_columns
from dataflow.state.index import Index

ENCODE_ROWS_MIN = 256


class Keys:
    """Key columns of some types, interned into slots."""

    def __init__(self, names: Sequence[str], types: Sequence[pa.DataType]) -> None:
        self.names = tuple(names)
        self.types = tuple(types)
        self._by_value = len(types) == 1 and is_int64_like(types[0])
        self._encode = len(types) == 1 and not self._by_value
        self._index = Index(direct=self._by_value)
        self._columns = [Column(kind) for kind in types]
        self._refs: Ints = np.zeros(0, np.int64)

    @property
    def capacity(self) -> int:
        return self._index.slots.capacity

    @property
    def live(self) -> int:
        return self._index.slots.live

    @property
    def alive(self) -> Bools:
        return self._index.slots.alive

    def living(self) -> Ints:
        return self._index.slots.living()

    def intern(self, columns: Sequence[pa.Array], rows: int) -> tuple[Ints, Ints]:
        """Slots of every row's key; the fresh ones among them."""
        if self._by_value and columns[0].null_count:
            self._leave_values()
        if self._encode and rows >= ENCODE_ROWS_MIN:
            return self._intern_encoded(columns[0])
        return self._intern(columns, rows)

    def _intern(self, columns: Sequence[pa.Array], rows: int) -> tuple[Ints, Ints]:
        slots, fresh = self._index.intern(*self._identity(columns, rows))
        if len(fresh):
            self._remember(columns, slots, fresh)
        return slots, fresh

    def _intern_encoded(self, column: pa.Array) -> tuple[Ints, Ints]:
        distinct, at = self._encoded(column)
        slots, fresh = self._intern([distinct], len(distinct))
        return slots[at], fresh

    def _encoded(self, column: pa.Array) -> tuple[pa.Array, Ints]:
        """Arrow finds the distinct values of the batch, and only those are hashed."""
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        # Keys that hardly repeat within a batch are hashed faster than they are encoded.
        self._encode = len(encoded.dictionary) * 2 < len(column)
        return encoded.dictionary, encoded.indices.to_numpy()

    def find(self, columns: Sequence[pa.Array], rows: int) -> Ints:
        """Slots of keys that live; -1 for the others."""
        if self._by_value and columns[0].null_count:
            self._leave_values()
        if self._encode and rows >= ENCODE_ROWS_MIN:
            distinct, at = self._encoded(columns[0])
            return self._index.find(*self._identity([distinct], len(distinct)))[at]
        return self._index.find(*self._identity(columns, rows))

    def release(self, slots: Ints) -> None:
        if len(slots):
            self._index.release(slots)

    def hold(self, slots: Ints) -> None:
        """One more thing depends on each of these keys."""
        if len(self._refs) < self.capacity:
            self._refs = np.concatenate([self._refs, np.zeros(self.capacity - len(self._refs), np.int64)])
        np.add.at(self._refs, slots, 1)

    def drop(self, slots: Ints) -> None:
        """One thing less; a key nothing depends on is released."""
        np.subtract.at(self._refs, slots, 1)
        self.release(distinct_slots(slots[self._refs[slots] == 0], self.capacity))

    def columns(self, slots: Ints) -> list[pa.Array]:
        return [column.arrow(slots) for column in self._columns]

    def _identity(self, columns: Sequence[pa.Array], rows: int) -> tuple[Ints, Words | None]:
        if self._by_value:
            return int64s(columns[0]), None
        first = hash_columns(columns, rows).view(np.int64)
        return first, hash_columns(columns, rows, seed=SEEDS[1])

    def _remember(self, columns: Sequence[pa.Array], slots: Ints, fresh: Ints) -> None:
        row_of = np.empty(self.capacity, np.int64)
        row_of[slots] = np.arange(len(slots))
        rows = pa.array(row_of[fresh])
        for column, values in zip(self._columns, columns, strict=True):
            column.grow(self.capacity)
            column.put(fresh, values.take(rows))

    def _leave_values(self) -> None:
        """A null key came: an int64 cannot say it, a hash can."""
        slots = self._index.slots
        slots.sweep()
        living = slots.living()
        self._by_value = False
        self._index = Index(direct=False)
        first, check = self._identity(self.columns(living), len(living))
        self._index.adopt(slots, living, first, check)


def distinct_slots(slots: Ints, capacity: int) -> Ints:
    """Each slot once, without a sort."""
    seen = np.zeros(capacity, np.bool_)
    seen[slots] = True
    return np.flatnonzero(seen)
