"""Which slots are in use: allocation, death, revival, sweeping.

A slot is a small dense number; accumulators are numpy columns indexed by it. A slot that is freed stays
known until the dead outnumber the living; if its key comes back before, it is revived. So memory is bounded
by twice the live keys, and windows that close and open again are cheap.
"""

from __future__ import annotations

import numpy as np

from dataflow.batches import AnyArray, Bools, Ints

SLOTS_MIN = 1024


def grown(column: AnyArray, capacity: int) -> AnyArray:
    """The same column with room for more; new cells are zero."""
    out = np.zeros(capacity, column.dtype)
    out[: len(column)] = column
    return out


class Slots:
    """The free list. Owners size their columns by `capacity`."""

    def __init__(self) -> None:
        self.capacity = SLOTS_MIN
        self.alive: Bools = np.zeros(SLOTS_MIN, np.bool_)
        self.known: Bools = np.zeros(SLOTS_MIN, np.bool_)
        self.live = 0
        self.dead = 0
        self._next = 0
        self._free: Ints = np.empty(0, np.int64)

    def allocate(self, count: int) -> Ints:
        reused = self._free[:count]
        self._free = self._free[count:]
        unused = np.arange(self._next, self._next + count - len(reused))
        self._next += len(unused)
        while self._next > self.capacity:
            self.capacity *= 2
        if self.capacity > len(self.alive):
            self.alive = grown(self.alive, self.capacity)
            self.known = grown(self.known, self.capacity)
        slots = np.concatenate([reused, unused])
        self.alive[slots] = True
        self.known[slots] = True
        self.live += count
        return slots

    def kill(self, slots: Ints) -> None:
        self.alive[slots] = False
        self.live -= len(slots)
        self.dead += len(slots)

    def revive(self, slots: Ints) -> None:
        self.alive[slots] = True
        self.live += len(slots)
        self.dead -= len(slots)

    def should_sweep(self) -> bool:
        return self.dead > max(self.live, SLOTS_MIN)

    def sweep(self) -> Ints:
        """Forget the dead: their slots may now serve other keys."""
        dead = np.flatnonzero(self.known & ~self.alive)
        self.known[dead] = False
        self._free = np.concatenate([self._free, dead])
        self.dead = 0
        return dead

    def living(self) -> Ints:
        return np.flatnonzero(self.alive)
