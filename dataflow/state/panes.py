"""Partial results by (key, pane): what every window aggregate is made of.

A pane is a stretch of time (or of row numbers) that no window cuts. Rows are folded into their pane once,
however many windows overlap; windows are put together from panes when they close.

Two lookups a batch: key -> key slot, (pane, key slot) -> entry. Both are a gather while numbers are dense.
Entries of a pane are remembered in order of first appearance, so results do not depend on batch boundaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from dataflow.batches import AnyArray, Bools, Ints
from dataflow.state.accumulators import Accumulators, Aggregate
from dataflow.state.columns import to_arrow, to_numpy
from dataflow.state.index import Index
from dataflow.state.keys import Keys
from dataflow.state.slots import grown
from dataflow.state.snapshot import key_columns, keyed_table

NO_SLOTS: Ints = np.empty(0, np.int64)


class Panes:
    """Entries of live (key, pane) pairs."""

    def __init__(self, keys: Keys, aggregates: Sequence[Aggregate]) -> None:
        self.keys = keys
        self.sums = Accumulators(aggregates)
        self._entries = Index()
        self._width = keys.capacity
        self._row_of: dict[int, int] = {}
        self._free_rows: list[int] = []
        self._members: dict[int, list[Ints]] = {}
        self._key_of: Ints = np.zeros(self._entries.slots.capacity, np.int64)
        self._pane_of: Ints = np.zeros(self._entries.slots.capacity, np.int64)
        self._dirty: Bools = np.zeros(self._entries.slots.capacity, np.bool_)
        self._turn_of: Ints = np.zeros(self._entries.slots.capacity, np.int64)  # in which turn an entry appeared
        self._turns = 0

    def __len__(self) -> int:
        return self._entries.slots.live

    def open_panes(self) -> list[int]:
        return sorted(self._members)

    def has(self, pane: int) -> bool:
        return pane in self._members

    def fold(self, key_slots: Ints, panes: Ints, distinct: Ints, inputs: Sequence[pa.Array]) -> Ints:
        """Fold rows into the entries of their key and pane. `distinct` are the panes that occur, sorted."""
        entries = self._touch(key_slots, panes, distinct)
        self.sums.update(entries, inputs)
        self._dirty[entries] = True
        return entries

    def members(self, pane: int) -> Ints:
        """Entries of a pane, in order of first appearance."""
        parts = self._members.get(pane, [])
        if len(parts) > 1:
            self._members[pane] = parts = [np.concatenate(parts)]
        return parts[0] if parts else NO_SLOTS

    def key_slots(self, entries: Ints) -> Ints:
        return self._key_of[entries]

    def panes_of(self, entries: Ints) -> Ints:
        return self._pane_of[entries]

    def close(self, panes: Iterable[int]) -> None:
        """These panes are no longer needed by any window."""
        gone = [pane for pane in panes if pane in self._members]
        entries = [self.members(pane) for pane in gone]
        for pane in gone:
            del self._members[pane]
            self._free_rows.append(self._row_of.pop(pane))
        if gone:
            self._release(np.concatenate(entries))

    def discard(self, entries: Ints) -> None:
        """Give back some entries of panes that stay open for other keys."""
        gone = np.zeros(self._entries.slots.capacity, np.bool_)
        gone[entries] = True
        for pane in distinct_panes(self._pane_of[entries]).tolist():
            members = self.members(pane)
            left = members[~gone[members]]
            if len(left):
                self._members[pane] = [left]
            else:
                del self._members[pane]
                self._free_rows.append(self._row_of.pop(pane))
        self._release(entries)

    def _release(self, entries: Ints) -> None:
        self._dirty[entries] = False
        keys = self._key_of[entries]
        self._entries.release(entries)
        self.keys.drop(keys)

    def _touch(self, key_slots: Ints, panes: Ints, distinct: Ints) -> Ints:
        if self._width != self.keys.capacity:
            self._widen()
        rows = self._rows(distinct)
        if len(distinct) == 1:
            names = key_slots + int(rows[0]) * self._width
        else:
            names = _lookup(panes, distinct, rows) * self._width + key_slots
        entries, fresh = self._entries.intern(names)
        if len(fresh):
            self._begin(entries, fresh, key_slots, panes)
        return entries

    def _rows(self, distinct: Ints) -> Ints:
        rows = []
        for pane in distinct.tolist():
            row = self._row_of.get(pane)
            if row is None:
                row = self._free_rows.pop() if self._free_rows else len(self._row_of)
                self._row_of[pane] = row
                self._members[pane] = []
            rows.append(row)
        return np.array(rows, np.int64)

    def _begin(self, entries: Ints, fresh: Ints, key_slots: Ints, panes: Ints) -> None:
        capacity = self._entries.slots.capacity
        if capacity > len(self._key_of):
            self._key_of, self._pane_of = grown(self._key_of, capacity), grown(self._pane_of, capacity)
            self._dirty, self._turn_of = grown(self._dirty, capacity), grown(self._turn_of, capacity)
            self.sums.grow(capacity)
        self._key_of[entries] = key_slots
        self._pane_of[entries] = panes
        self._turn_of[fresh] = np.arange(self._turns, self._turns + len(fresh))
        self._turns += len(fresh)
        self.sums.clear(fresh)
        self.keys.hold(self._key_of[fresh])
        of_pane = self._pane_of[fresh]
        if int(of_pane.min()) == int(of_pane.max()):
            self._members[int(of_pane[0])].append(fresh)
            return
        order = np.argsort(of_pane, kind="stable")
        cuts = np.flatnonzero(np.diff(of_pane[order])) + 1
        for part in np.split(fresh[order], cuts):
            self._members[int(self._pane_of[part[0]])].append(part)

    def _widen(self) -> None:
        """The key table grew: name every entry anew."""
        slots = self._entries.slots
        slots.sweep()
        living = slots.living()
        self._width = self.keys.capacity
        row_of = np.array([self._row_of[pane] for pane in self._pane_of[living].tolist()], np.int64)
        self._entries = Index()
        self._entries.adopt(slots, living, row_of * self._width + self._key_of[living], None)

    # -- as tables --

    def dump(self, *, changed: bool) -> pa.RecordBatch:
        if changed:  # without a look at the others, in the same order
            dirty = np.flatnonzero(self._dirty)
            entries = dirty[np.lexsort((self._turn_of[dirty], self._pane_of[dirty]))]
        else:
            entries = np.concatenate([NO_SLOTS, *(self.members(pane) for pane in self.open_panes())])
        types = self.sums.types()
        columns = {name: to_arrow(values, types[name]) for name, values in self.sums.take(entries).items()}
        keys = self.keys.columns(self._key_of[entries])
        return keyed_table(keys, {"pane": pa.array(self._pane_of[entries]), **columns})

    def load(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        key_slots, _ = self.keys.intern(key_columns(rows), rows.num_rows)
        panes = cast(Ints, rows.column("pane").to_numpy())
        entries = self._touch(key_slots, panes, np.unique(panes))
        partial: dict[str, AnyArray] = {name: to_numpy(rows.column(name)) for name in self.sums.columns}
        self.sums.put(entries, partial)

    def find(self, rows: pa.RecordBatch) -> Ints:
        """Entries of (keys, pane) rows that are open, each once: a pane may have been opened and removed again."""
        key_slots = self.keys.find(key_columns(rows), rows.num_rows)
        panes = rows.column("pane").to_numpy()
        known = [
            (row, self._row_of[pane])
            for row, (slot, pane) in enumerate(zip(key_slots.tolist(), panes.tolist(), strict=True))
            if slot >= 0 and pane in self._row_of
        ]
        at, pane_rows = np.array(known, np.int64).reshape(-1, 2).T
        entries = self._entries.find(pane_rows * self._width + key_slots[at])
        found: Ints = np.unique(entries[entries >= 0])
        return found

    def clean(self) -> None:
        self._dirty[:] = False


def distinct_panes(panes: Ints) -> Ints:
    """The panes that occur, sorted; without a sort when they lie close together."""
    low, high = int(panes.min()), int(panes.max())
    if low == high:
        return np.array([low], np.int64)
    if high - low <= 4 * len(panes):
        seen = np.zeros(high - low + 1, np.bool_)
        seen[panes - low] = True
        return np.flatnonzero(seen) + low
    return cast(Ints, np.unique(panes))


def _lookup(panes: Ints, distinct: Ints, rows: Ints) -> Ints:
    low, high = int(distinct[0]), int(distinct[-1])
    if high - low <= 4 * len(panes) + 1024:
        table = np.zeros(high - low + 1, np.int64)
        table[distinct - low] = rows
        return table.take(panes - low)
    return rows[np.searchsorted(distinct, panes)]
