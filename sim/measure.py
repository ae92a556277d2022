"""Figures for a report: percentiles of a list, memory of this process."""

from collections.abc import Sequence
from pathlib import Path

PAGE_KIB = 4


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of `values` do not exceed; of none, zero.

    >>> percentile([3, 1, 2, 4], 50), percentile([3, 1, 2, 4], 99), percentile([], 50)
    (2, 4, 0.0)
    """
    if not values:
        return 0.0
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(int(rank) - 1, 0)]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def resident_kib() -> int:
    """What this process holds in memory now; zero where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB
    except OSError:
        return 0
