"""What an app asks for when a peer dies, and how often its epochs end: part of the app file, checked when it is built.

    exactly-once    the finished stream is what one machine would have produced; rows are shown when committed
    at-least-once   rows are shown at once; after a rollback some come again
    none            no state is kept: what a dead peer had is gone, and the app goes on without it
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

EPOCH_MS_MIN: Final = 50
EPOCH_MS_MAX: Final = 3_600_000


class Guarantee(StrEnum):
    """What an app is promised when a peer dies."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Promise:
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    epoch_ms: int = 1000


def promise_of(guarantee: str, epoch_us: int) -> Promise:
    """
    >>> promise_of("none", 2_000_000).epoch_ms
    2000
    >>> promise_of("twice", 1)
    Traceback (most recent call last):
    ...
    ValueError: guarantee 'twice' is none of exactly-once, at-least-once, none
    """
    if guarantee not in set(Guarantee):
        raise ValueError(f"guarantee {guarantee!r} is none of {', '.join(Guarantee)}")
    epoch_ms = epoch_us // 1000
    if not EPOCH_MS_MIN <= epoch_ms <= EPOCH_MS_MAX:
        raise ValueError(f"an epoch takes {EPOCH_MS_MIN} ms to an hour, not {epoch_ms} ms")
    return Promise(Guarantee(guarantee), epoch_ms)
