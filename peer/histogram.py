"""How long things took: counts by size, fixed in memory however many there were.

The bounds double, from a millisecond to two minutes: wide enough for a slow link, and a quantile read from them is at
most twice the true one. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BOUNDS_S: Final = tuple(0.001 * 2**power for power in range(18))


class Histogram:
    """
    >>> took = Histogram()
    >>> took.note(0.0015, count=10); took.note(500.0)
    >>> took.cumulated()[:3], took.count, round(took.sum_s, 3)
    ([(0.001, 0), (0.002, 10), (0.004, 10)], 11, 500.015)
    """

    __slots__ = ("_counts", "count", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.count = 0
        self.sum_s = 0.0

    def note(self, seconds: float, *, count: int = 1) -> None:
        self._counts[bisect_left(BOUNDS_S, seconds)] += count
        self.count += count
        self.sum_s += seconds * count

    def cumulated(self) -> list[tuple[float, int]]:
        """(bound, how many took no longer); the rest are in `count`."""
        total, found = 0, []
        for bound, count in zip(BOUNDS_S, self._counts, strict=False):
            total += count
            found.append((bound, total))
        return found
