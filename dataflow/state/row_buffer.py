"""Rows that wait for others, each with a number (its window, or its time) below which it may go.

Appending is free. What was appended at once stays together as a part, and parts are cut where numbers say so: a part
whose numbers rise is cut without a copy. A delta is what was appended since the last snapshot: what has gone is known
from the operator's mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dataflow.batches import Bools, Ints, concat, keep
from dataflow.state.snapshot import keyed_table


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Rows that came together, with their numbers."""

    rows: pa.RecordBatch
    numbers: Ints
    lowest: int
    highest: int
    rises: bool
    old: int  # so many of the first rows are in a snapshot

    def below(self, limit: int) -> tuple[Part | None, Part | None]:
        """Those with numbers below the limit, and the others."""
        if self.highest < limit:
            return self, None
        if self.lowest >= limit:
            return None, self
        if self.rises:
            at = int(np.searchsorted(self.numbers, limit))
            return (
                part_of(self.rows.slice(0, at), self.numbers[:at], old=min(at, self.old)),
                part_of(self.rows.slice(at), self.numbers[at:], old=max(0, self.old - at)),
            )
        below = self.numbers < limit
        return self.only(below), self.only(~below)

    def only(self, kept: Bools) -> Part | None:
        if kept.all():
            return self
        old = int(np.count_nonzero(kept[: self.old]))
        return part_of(keep(self.rows, kept), self.numbers[kept], old=old) if kept.any() else None


def part_of(rows: pa.RecordBatch, numbers: Ints, *, old: int) -> Part:
    rises = bool((numbers[1:] >= numbers[:-1]).all())
    ends = (numbers[0], numbers[-1]) if rises else (numbers.min(), numbers.max())
    return Part(rows, numbers, int(ends[0]), int(ends[1]), rises, old)


class RowBuffer:
    def __init__(self, key: Sequence[str], schema: pa.Schema) -> None:
        self._key = tuple(key)
        self._schema = schema
        self._parts: list[Part] = []  # old rows are in front of new ones

    def __len__(self) -> int:
        return sum(len(part.numbers) for part in self._parts)

    def append(self, rows: pa.RecordBatch, numbers: Ints) -> None:
        if rows.num_rows:
            self._parts.append(part_of(rows, numbers, old=0))

    def all(self) -> tuple[pa.RecordBatch, Ints]:
        """Every row, in order of arrival."""
        if len(self._parts) > 1:
            # Whoever asks for all will ask again.
            self._parts = [part_of(*self._together(self._parts), old=sum(part.old for part in self._parts))]
        return self._together(self._parts)

    def take_below(self, limit: int) -> tuple[pa.RecordBatch, Ints]:
        """Remove and give the rows with numbers below the limit, in order of arrival."""
        halves = [part.below(limit) for part in self._parts]
        self._parts = [after for _, after in halves if after]
        return self._together([before for before, _ in halves if before])

    def retain(self, kept: Bools) -> None:
        """Keep only these of `all` rows."""
        self.all()
        self._parts = [part for part in (part.only(kept) for part in self._parts) if part]

    def _together(self, parts: Sequence[Part]) -> tuple[pa.RecordBatch, Ints]:
        if len(parts) == 1:
            return parts[0].rows, parts[0].numbers
        rows = concat([part.rows for part in parts], self._schema)
        return rows, np.concatenate([part.numbers for part in parts]) if parts else np.empty(0, np.int64)

    # -- as tables --

    def dump(self, *, changed: bool) -> pa.RecordBatch:
        if changed:  # without a look at rows that are not new
            fresh = [part for part in self._parts if part.old < len(part.numbers)]
            rows = concat([part.rows.slice(part.old) for part in fresh], self._schema)
            numbers = np.concatenate([np.empty(0, np.int64), *(part.numbers[part.old :] for part in fresh)])
        else:
            rows, numbers = self.all()
        columns = {f"row_{name}": rows.column(name) for name in self._schema.names}
        return keyed_table([rows.column(name) for name in self._key], {"number": pa.array(numbers), **columns})

    def load(self, table: pa.RecordBatch) -> None:
        arrays = [table.column(f"row_{name}") for name in self._schema.names]
        self.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema), table.column("number").to_numpy())

    def clean(self) -> None:
        self._parts = [replace(part, old=len(part.numbers)) for part in self._parts]
