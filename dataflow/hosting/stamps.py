"""When rows came in: a stamp of 32 bits that travels with them from their source to a sink.

A source's host stamps what a connector brings with its wall clock in milliseconds; whatever a step gives bears the
oldest stamp of what the step took. So the age at the sink is the time in queues, on wires and in operators. What rows
of a window wait for is not in it: the result bears the stamp of the rows or the watermark that closed the window.

32 bits turn over every 49 days, and an age is a difference, so nobody notices. Clocks of two devices differ: an age
between them is as good as their clocks, and one below zero is zero.

Pure. Rejected: 64 bits (the header has room for 32, and no row is under way for a month); a column of times (user's
rows are the user's); separate marks that measure the way (they overtake nothing, but they wait for no window either).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NO_STAMP: Final = 0
_MASK: Final = (1 << 32) - 1
_HALF: Final = 1 << 31


def stamp_of(now_ms: int) -> int:
    """The stamp of this moment; never `NO_STAMP`.

    >>> stamp_of(1_800_000_000_000), stamp_of(1 << 32)
    (408702976, 1)
    """
    return (now_ms & _MASK) or 1


def age_ms(stamp: int, now_ms: int) -> int:
    """How long ago that was; zero if it seems to lie ahead.

    >>> age_ms(stamp_of((1 << 32) - 5), (1 << 32) + 7), age_ms(stamp_of(1000), 990)
    (12, 0)
    """
    age = (now_ms - stamp) & _MASK
    return age if age < _HALF else 0


def oldest(stamps: Iterable[int]) -> int:
    """The earliest of some stamps that are within a month of each other.

    >>> oldest([7, NO_STAMP, (1 << 32) - 5, 9]) == (1 << 32) - 5, oldest([])
    (True, 0)
    """
    found = NO_STAMP
    for stamp in stamps:
        if stamp and (not found or (found - stamp) & _MASK < _HALF):
            found = stamp
    return found
