"""Open sessions of many keys: stretches of rows with less than a gap between them.

A batch becomes sessions of its own first (one sort), then meets the open sessions of the keys it touches:
what lies closer than the gap becomes one. Other keys are not looked at, save one gather over a mask.
Rows may come in any order; a key may have several open sessions, and a row between two joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from dataflow.batches import AnyArray, Bools, Ints
from dataflow.state.accumulators import Accumulators, Aggregate
from dataflow.state.columns import to_arrow, to_numpy
from dataflow.state.keys import Keys
from dataflow.state.slots import Slots, grown
from dataflow.state.snapshot import key_columns, keyed_table
from dataflow.times import INT64_MAX

STACK_MAX = 1 << 62  # (group, time) pairs below this fit one int64


def joined(groups: Ints, firsts: Ints, lasts: Ints, gap: int) -> tuple[Ints, Ints]:
    """Sort stretches by (group, first) and number those that lie closer than the gap alike."""
    low = int(firsts.min())
    width = int(lasts.max()) - low + 1
    fits = int(groups.max() + 1) * width < STACK_MAX
    # Times of one group behind those of the other, on one line: a single sort, and a running maximum.
    order = np.argsort(groups * width + (firsts - low)) if fits else np.lexsort((firsts, groups))
    groups, firsts, lasts = groups[order], firsts[order], lasts[order]
    begins = np.concatenate([[True], groups[1:] != groups[:-1]])
    if fits:
        base = groups * width
        latest = np.maximum.accumulate(base + (lasts - low)) - base + low
    else:
        ends, rank = np.unique(lasts, return_inverse=True)
        base = (np.cumsum(begins) - 1) * len(ends)
        latest = ends[np.maximum.accumulate(rank + base) - base]
    begins[1:] |= firsts[1:] - latest[:-1] >= gap
    return order, np.cumsum(begins) - 1


class Sessions:
    def __init__(self, keys: Keys, aggregates: Sequence[Aggregate], gap: int) -> None:
        self.keys = keys
        self.sums = Accumulators(aggregates)
        self._gap = gap
        self._slots = Slots()
        self.key_of: Ints = np.zeros(self._slots.capacity, np.int64)
        self.first: Ints = np.zeros(self._slots.capacity, np.int64)
        self.last: Ints = np.zeros(self._slots.capacity, np.int64)
        self._dirty_keys: Bools = np.zeros(keys.capacity, np.bool_)

    def __len__(self) -> int:
        return self._slots.live

    def fold(self, key_slots: Ints, times: Ints, inputs: Sequence[pa.Array]) -> None:
        """Fold rows in, making, extending and joining sessions."""
        order, group = joined(key_slots, times, times, self._gap)
        group_of_row = np.empty_like(group)
        group_of_row[order] = group
        heads = np.flatnonzero(np.diff(group, prepend=-1))
        tails = np.append(heads[1:], len(group)) - 1
        session_of_group = self._place(key_slots[order][heads], times[order][heads], times[order][tails])
        self.sums.update(session_of_group[group_of_row], inputs)

    def _place(self, keys: Ints, firsts: Ints, lasts: Ints) -> Ints:
        """Sessions that will hold these stretches; open ones that they touch are joined."""
        self._mark(keys)
        touched = np.zeros(self.keys.capacity, np.bool_)
        touched[keys] = True
        live = self._slots.living()
        old = live[touched[self.key_of[live]]]
        order, group = joined(
            np.concatenate([self.key_of[old], keys]),
            np.concatenate([self.first[old], firsts]),
            np.concatenate([self.last[old], lasts]),
            self._gap,
        )
        group_of = np.empty_like(group)
        group_of[order] = group
        of_old, of_new = group_of[: len(old)], group_of[len(old) :]
        session = np.full(int(group[-1]) + 1, -1, np.int64)
        session[of_old[::-1]] = old[::-1]
        fresh = np.flatnonzero(session < 0)
        session[fresh] = self._begin(len(fresh))
        self.key_of[session[of_new]] = keys
        self.first[session[fresh]] = np.iinfo(np.int64).max
        self.last[session[fresh]] = np.iinfo(np.int64).min
        np.minimum.at(self.first, session[group_of], np.concatenate([self.first[old], firsts]))
        np.maximum.at(self.last, session[group_of], np.concatenate([self.last[old], lasts]))
        self.keys.hold(self.key_of[session[fresh]])
        absorbed = session[of_old] != old
        if absorbed.any():
            self.sums.combine(session[of_old[absorbed]], self.sums.take(old[absorbed]))
            self.release(old[absorbed])
        placed: Ints = session[of_new]
        return placed

    def _begin(self, count: int) -> Ints:
        slots = self._slots.allocate(count)
        capacity = self._slots.capacity
        if capacity > len(self.key_of):
            self.key_of, self.first = grown(self.key_of, capacity), grown(self.first, capacity)
            self.last = grown(self.last, capacity)
            self.sums.grow(capacity)
        self.sums.clear(slots)
        return slots

    def over(self, before: int) -> Ints:
        """Sessions that no row at or after `before` can extend, by end and beginning."""
        live = self._slots.living()
        done = live[self.last[live] + self._gap <= before]
        return done[np.lexsort((self.first[done], self.last[done]))]

    def next_end(self) -> int:
        """When the first of the open sessions will be over."""
        return int(self.last[self._slots.living()].min(initial=INT64_MAX - self._gap)) + self._gap

    def release(self, sessions: Ints) -> None:
        keys = self.key_of[sessions]
        self._slots.kill(sessions)
        if self._slots.should_sweep():
            self._slots.sweep()
        self.keys.drop(keys)
        self._dirty_keys[keys] &= self.keys.alive[keys]

    def _mark(self, keys: Ints) -> None:
        if self.keys.capacity > len(self._dirty_keys):
            self._dirty_keys = grown(self._dirty_keys, self.keys.capacity)
        self._dirty_keys[keys] = True

    # -- as tables: a delta replaces all sessions of the keys that changed --

    def dump(self, *, changed: bool) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        live = self._slots.living()
        if changed:
            live = live[self._dirty_keys[self.key_of[live]]]
        types = self.sums.types()
        columns = {name: to_arrow(values, types[name]) for name, values in self.sums.take(live).items()}
        times = {"first": pa.array(self.first[live]), "last": pa.array(self.last[live])}
        rows = keyed_table(self.keys.columns(self.key_of[live]), {**times, **columns})
        dirty = np.flatnonzero(self._dirty_keys)
        return rows, keyed_table(self.keys.columns(dirty), {"replaced": pa.array(np.ones(len(dirty), np.int8))})

    def load(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        keys, _ = self.keys.intern(key_columns(rows), rows.num_rows)
        slots = self._begin(rows.num_rows)
        self.key_of[slots] = keys
        self.keys.hold(keys)
        self.first[slots], self.last[slots] = rows.column("first").to_numpy(), rows.column("last").to_numpy()
        partial: dict[str, AnyArray] = {name: to_numpy(rows.column(name)) for name in self.sums.columns}
        self.sums.put(slots, partial)

    def replace(self, rows: pa.RecordBatch) -> None:
        keys = self.keys.find(key_columns(rows), rows.num_rows)
        gone = np.zeros(self.keys.capacity, np.bool_)
        gone[keys[keys >= 0]] = True
        live = self._slots.living()
        self.release(live[gone[self.key_of[live]]])

    def clean(self) -> None:
        self._dirty_keys = cast(Bools, np.zeros(self.keys.capacity, np.bool_))
