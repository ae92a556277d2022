"""Which windows of time are complete, and which panes they consist of. Pure arithmetic on ints.

Windows are numbered by their first pane. A window of many panes is covered by few *blocks* of 2^n aligned
panes each, so that a window over 600 panes is combined from at most 18 parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaneWindows:
    """Windows of `size` panes, one beginning every `slide` panes."""

    size: int
    slide: int

    def first_start(self, pane: int) -> int:
        """The first pane of the earliest window that contains a pane."""
        return -((self.size - 1 - pane) // self.slide) * self.slide

    def last_start(self, pane: int) -> int:
        return pane // self.slide * self.slide

    def last_end(self, pane: int) -> int:
        """One past the last pane of the latest window that contains a pane."""
        return self.last_start(pane) + self.size


def cover(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Aligned blocks (level, index) that make up panes [start, end), oldest first.

    >>> list(cover(3, 9))
    [(0, 3), (2, 1), (0, 8)]
    """
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        yield level, start >> level
        start += 1 << level
