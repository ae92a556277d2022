"""Integer sums that do not fit int64 are noticed, not wrapped.

A sum that wraps is a wrong number that looks right. A bound on what any group can have reached is one multiplication
a batch; only when that bound comes near the limit are the groups looked at, and then exactly, in two halves of 32 bits.

Promises: after each batch every sum is right, or `fits` has said no. A sum may leave int64 and come back within
one batch.
Rejected: a dead letter (the sum has no single bad row); going on in float64 (sums would lose their last digits in
silence); float64 beside every sum (twice the cost, and not exact where it matters).
"""

from __future__ import annotations

import numpy as np

from dataflow.batches import AnyArray, Ints

LIMIT = (1 << 63) - 1
HALF = 32
LOW = (1 << HALF) - 1


class Headroom:
    """How far the sums of one column may be from zero."""

    def __init__(self) -> None:
        self._largest = 0

    def fits(self, sums: Ints, slots: Ints, values: AnyArray) -> bool:
        """Whether these values may be added to the sums of their slots."""
        if not len(values):
            return True
        added = _magnitude(values) * len(values)
        if self._largest + added > LIMIT:
            self._largest = _magnitude(sums)
        if self._largest + added <= LIMIT:
            self._largest += added
            return True
        self._largest = LIMIT
        return _fits_exactly(sums, slots, values)

    def put(self, values: AnyArray) -> None:
        """Sums that come from elsewhere, such as a snapshot."""
        if len(values):
            self._largest = max(self._largest, _magnitude(values))


def _magnitude(values: AnyArray) -> int:
    return max(int(values.max()), -int(values.min()))


def _fits_exactly(sums: Ints, slots: Ints, values: AnyArray) -> bool:
    groups, at = np.unique(slots, return_inverse=True)
    high, low = sums[groups] >> HALF, sums[groups] & LOW
    np.add.at(high, at, (values >> values.dtype.type(HALF)).astype(np.int64))
    np.add.at(low, at, (values & values.dtype.type(LOW)).astype(np.int64))
    high += low >> HALF
    return bool((high >= -(1 << 31)).all() and (high < 1 << 31).all())
