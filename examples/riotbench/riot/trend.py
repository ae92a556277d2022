"""A straight line through the latest values, and where it leads.

>>> ahead([1.0, 2.0, 3.0], steps=2)
5.0
"""

from __future__ import annotations

from collections.abc import Sequence


def ahead(values: Sequence[float], *, steps: int) -> float:
    """The value that many steps after the last, on the line of least squares."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((at - middle) ** 2 for at in range(count))
    slope = sum((at - middle) * value for at, value in enumerate(values)) / spread
    return mean + slope * (count - 1 + steps - middle)
