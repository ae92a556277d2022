"""Rows that wait for others, each with a number (its window, or its time) below which it may go.

Appending is free; rows are put together when they are asked for. A delta is what was appended since the last
snapshot: what has gone is known from the operator's mark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dataflow.batches import Bools, Ints, concat, keep
from dataflow.state.snapshot import keyed_table


class RowBuffer:
    def __init__(self, key: Sequence[str], schema: pa.Schema) -> None:
        self._key = tuple(key)
        self._schema = schema
        self._parts: list[tuple[pa.RecordBatch, Ints, Bools]] = []  # rows, numbers, which are new

    def __len__(self) -> int:
        return sum(len(numbers) for _, numbers, _ in self._parts)

    def append(self, rows: pa.RecordBatch, numbers: Ints) -> None:
        if rows.num_rows:
            self._parts.append((rows, numbers, np.ones(len(numbers), np.bool_)))

    def all(self) -> tuple[pa.RecordBatch, Ints]:
        rows, numbers, _ = self._together()
        return rows, numbers

    def take_below(self, limit: int) -> tuple[pa.RecordBatch, Ints]:
        """Remove and give the rows with numbers below the limit, in order of arrival."""
        if not any(int(numbers.min()) < limit for _, numbers, _ in self._parts):
            return concat([], self._schema), np.empty(0, np.int64)
        rows, numbers, new = self._together()
        below = numbers < limit
        left = ~below
        self._parts = [(keep(rows, left), numbers[left], new[left])] if left.any() else []
        return keep(rows, below), numbers[below]

    def retain(self, kept: Bools) -> None:
        """Keep only these of `all` rows."""
        rows, numbers, new = self._together()
        self._parts = [(keep(rows, kept), numbers[kept], new[kept])] if kept.any() else []

    def _together(self) -> tuple[pa.RecordBatch, Ints, Bools]:
        if not self._parts:
            return concat([], self._schema), np.empty(0, np.int64), np.empty(0, np.bool_)
        if len(self._parts) > 1:
            batches, numbers, new = zip(*self._parts, strict=True)
            self._parts = [(concat(batches, self._schema), np.concatenate(numbers), np.concatenate(new))]
        return self._parts[0]

    # -- as tables --

    def dump(self, *, changed: bool) -> pa.RecordBatch:
        if changed:  # without a look at the rows of parts that are not new
            some = [(keep(rows, new), numbers[new]) for rows, numbers, new in self._parts if new.any()]
            rows = concat([rows for rows, _ in some], self._schema)
            numbers = np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers in some)])
        else:
            rows, numbers, _ = self._together()
        columns = {f"row_{name}": rows.column(name) for name in self._schema.names}
        return keyed_table([rows.column(name) for name in self._key], {"number": pa.array(numbers), **columns})

    def load(self, table: pa.RecordBatch) -> None:
        arrays = [table.column(f"row_{name}") for name in self._schema.names]
        self.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema), table.column("number").to_numpy())

    def clean(self) -> None:
        for _, _, new in self._parts:
            new[:] = False
