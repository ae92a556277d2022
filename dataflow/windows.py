"""Kinds of windows: how a stream is cut into stretches that have a result.

All windows of time are half open: a row exactly on a boundary belongs to the window that begins there.
They are aligned to the epoch (UTC for columns with a zone) plus `offset`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dataflow.durations import Duration, duration_text, duration_us
from dataflow.errors import AppError


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Windows of one length, one beginning every `slide_us`."""

    size_us: int
    slide_us: int
    offset_us: int = 0

    @property
    def pane_us(self) -> int:
        return math.gcd(self.size_us, self.slide_us)

    def __str__(self) -> str:
        if self.size_us == self.slide_us:
            return f"tumbling {duration_text(self.size_us)}"
        return f"sliding {duration_text(self.size_us)} every {duration_text(self.slide_us)}"


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """A window lasts while rows follow each other in less than `gap_us`."""

    gap_us: int

    def __str__(self) -> str:
        return f"session {duration_text(self.gap_us)}"


@dataclass(frozen=True, slots=True)
class CountWindow:
    """A window holds that many rows of a key."""

    rows: int

    def __str__(self) -> str:
        return f"count {self.rows}"


Window = TimeWindow | SessionWindow | CountWindow


def tumbling(size: Duration, *, offset: Duration = 0) -> TimeWindow:
    """Windows that touch and do not overlap.

    >>> str(tumbling("10s"))
    'tumbling 10s'
    """
    size_us = _positive(size, "window size")
    return TimeWindow(size_us, size_us, duration_us(offset, what="window offset", negative=True))


def sliding(size: Duration, every: Duration, *, offset: Duration = 0) -> TimeWindow:
    """Windows that overlap: one of `size` begins `every` so often.

    >>> str(sliding("10s", every="2s"))
    'sliding 10s every 2s'
    """
    size_us, slide_us = _positive(size, "window size"), _positive(every, "window slide")
    if slide_us > size_us:
        raise AppError(f"a window of {size!r} that begins every {every!r} would leave rows out")
    return TimeWindow(size_us, slide_us, duration_us(offset, what="window offset", negative=True))


def session(gap: Duration) -> SessionWindow:
    """Windows that end when a key has been quiet for `gap`."""
    return SessionWindow(_positive(gap, "session gap"))


def count_window(rows: int) -> CountWindow:
    """Windows of so many rows a key; a last, unfilled one has no result."""
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise AppError(f"a count window needs a positive number of rows, not {rows!r}")
    return CountWindow(rows)


def _positive(value: Duration, what: str) -> int:
    span_us = duration_us(value, what=what)
    if span_us == 0:
        raise AppError(f"{what} {value!r} is zero")
    return span_us
