"""From key to slot, a whole batch at a time.

A key is an int64 (a value, or the first word of a hash with a second word as its check). Two tables can find
its slot: a *direct* one (key minus smallest key is the position) while keys lie close together, and an
*open-addressing* one over mixed keys otherwise. Both are probed with a few numpy passes over the batch.

Promises: new keys get slots in order of first appearance; slots reported `fresh` hold no valid state yet.
Rejected: tombstones (they lengthen every later probe); a Python dict (50 ns a row).
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import AnyArray, Ints, Words
from dataflow.state.hashing import hash_ints
from dataflow.state.slots import Slots, grown

DIRECT_SPAN_MAX = 1 << 22  # cells of 4 bytes: 16 MiB at most
CELLS_MIN = 4096


def first_appearances(values: Ints) -> tuple[Ints, Ints]:
    """Positions of each distinct value's first row, in row order, and each row's rank among them."""
    encoded = pc.dictionary_encode(pa.array(values))
    rank = encoded.indices.to_numpy()
    first = np.empty(len(encoded.dictionary), np.int64)
    first[rank[::-1]] = np.arange(len(values) - 1, -1, -1)  # of equal ranks the last one written stays: the first row
    return first, rank


class Index:
    """Keys of live slots. `intern` finds or makes slots; `release` gives them back."""

    def __init__(self, *, direct: bool = True) -> None:
        self.slots = Slots()
        self._direct = direct
        self._lowest = 0
        self._cells: AnyArray = np.full(CELLS_MIN, -1, np.int32)
        self._key_of: Ints = np.zeros(self.slots.capacity, np.int64)
        self._check_of: Words = np.zeros(self.slots.capacity, np.uint64)
        self._entries = 0

    def keys(self, slots: Ints) -> Ints:
        return self._key_of[slots]

    def find(self, keys: Ints, checks: Words | None = None) -> Ints:
        """Slots of keys; -1 where a key is not live."""
        slots = self._probe(keys, checks)
        return np.where((slots >= 0) & self.slots.alive[slots], slots, -1)

    def intern(self, keys: Ints, checks: Words | None = None) -> tuple[Ints, Ints]:
        """A live slot for every key, and those among them that begin now."""
        if not len(keys):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if self._direct:
            self._widen(keys)
        slots = self._probe(keys, checks)
        alive = self.slots.alive[slots]
        alive[slots < 0] = False
        if alive.all():
            return slots, slots[:0]
        return self._begin(keys, checks, slots, np.flatnonzero(~alive))

    def release(self, slots: Ints) -> None:
        """The keys of these slots are gone; the slots are reused in time."""
        self.slots.kill(slots)
        if self.slots.should_sweep():
            dead = self.slots.sweep()
            if self._direct:
                self._cells[self._key_of[dead] - self._lowest] = -1
            else:
                self._rebuild(len(self._cells))

    def adopt(self, slots: Slots, living: Ints, keys: Ints, checks: Words | None) -> None:
        """Go on with slots that another index gave out."""
        self.slots = slots
        self._room()
        self._key_of[living] = keys
        if checks is not None:
            self._check_of[living] = checks
        if self._direct and len(living):
            self._widen(keys)
        self._insert(living)

    def _begin(self, keys: Ints, checks: Words | None, slots: Ints, rows: Ints) -> tuple[Ints, Ints]:
        # Equal keys have equal identities; with checks, the mixed pair stands for the key.
        names = keys[rows] if checks is None else keys[rows] ^ hash_ints(checks[rows].view(np.int64)).view(np.int64)
        first, rank = first_appearances(names)
        heads = rows[first]
        known = slots[heads] >= 0
        revived = slots[heads[known]]
        self.slots.revive(revived)
        made = self.slots.allocate(int(len(heads) - len(revived)))
        fresh = np.empty(len(heads), np.int64)
        fresh[known], fresh[~known] = revived, made
        if len(made):
            self._room()
            new = heads[~known]
            self._key_of[made] = keys[new]
            if checks is not None:
                self._check_of[made] = checks[new]
            self._insert(made)
        slots = slots.copy()
        slots[rows] = fresh[rank]
        return slots, fresh

    def _room(self) -> None:
        if self.slots.capacity > len(self._key_of):
            self._key_of = grown(self._key_of, self.slots.capacity)
            self._check_of = grown(self._check_of, self.slots.capacity)

    # -- direct table --

    def _widen(self, keys: Ints) -> None:
        low, high = int(keys.min()), int(keys.max())
        if self.slots.live + self.slots.dead == 0:
            self._lowest = low
        end = self._lowest + len(self._cells)
        if low >= self._lowest and high < end:
            return
        low, high = min(low, self._lowest), max(high + 1, end)
        if high - low > DIRECT_SPAN_MAX:
            self._direct = False
            self._rebuild(CELLS_MIN)  # a power of two, as open addressing wants
            return
        # Twice what is asked for, on the side that grows: keys that arrive in order widen rarely.
        if low < self._lowest:
            low = max(high - DIRECT_SPAN_MAX, low - (high - low))
        else:
            high = min(low + DIRECT_SPAN_MAX, high + (high - low))
        cells = np.full(high - low, -1, np.int32)
        cells[self._lowest - low : self._lowest - low + len(self._cells)] = self._cells
        self._cells, self._lowest = cells, low

    # -- open addressing --

    def _probe(self, keys: Ints, checks: Words | None) -> Ints:
        if self._direct:
            return self._probe_direct(keys)
        mask = len(self._cells) - 1
        at = hash_ints(keys).view(np.int64) & mask
        slots: Ints = self._cells[at].astype(np.int64)
        wrong = self._key_of[slots] != keys
        if checks is not None:
            wrong |= self._check_of[slots] != checks
        pending = np.flatnonzero(wrong & (slots >= 0))
        while pending.size:
            at[pending] = (at[pending] + 1) & mask
            found = self._cells[at[pending]].astype(np.int64)
            slots[pending] = found
            wrong = self._key_of[found] != keys[pending]
            if checks is not None:
                wrong |= self._check_of[found] != checks[pending]
            pending = pending[wrong & (found >= 0)]
        return slots

    def _probe_direct(self, keys: Ints) -> Ints:
        at = keys - self._lowest if self._lowest else keys
        if len(keys) and (int(at.min()) < 0 or int(at.max()) >= len(self._cells)):
            inside = (at >= 0) & (at < len(self._cells))
            return cast(Ints, np.where(inside, self._cells[np.where(inside, at, 0)], -1).astype(np.int64))
        found: Ints = self._cells.take(at).astype(np.int64)
        return found

    def _insert(self, slots: Ints) -> None:
        if self._direct:
            self._cells[self._key_of[slots] - self._lowest] = slots
            return
        if (self._entries + len(slots)) * 2 > len(self._cells):
            size = len(self._cells)
            while size < (self._entries + len(slots)) * 4:
                size *= 2
            self._rebuild(size)
            return
        self._entries += len(slots)
        mask = len(self._cells) - 1
        at = hash_ints(self._key_of[slots]).view(np.int64) & mask
        pending = slots
        while pending.size:
            free = self._cells[at] < 0
            self._cells[at[free]] = pending[free]
            lost = self._cells[at] != pending
            pending, at = pending[lost], (at[lost] + 1) & mask

    def _rebuild(self, size: int) -> None:
        known = np.flatnonzero(self.slots.known)
        while size < len(known) * 4:
            size *= 2
        self._cells = np.full(size, -1, np.int32)
        self._entries = 0
        self._insert(known)
