"""Rows of W2 at a steady rate, for whoever measures latency: so many every tick, stamped as they are handed over."""

from __future__ import annotations

import time

from bench.arithmetic import mix
from bench.data import AUCTIONS, FIRST_ID
from bench.latency import EVENTS_PER_S, SECONDS, TICK_MS

ROWS_A_TICK = EVENTS_PER_S * TICK_MS // 1000
TICKS = SECONDS * 1000 // TICK_MS


def auctions_of(tick: int) -> list[int]:
    return [FIRST_ID + mix(tick * ROWS_A_TICK + at, 1) % AUCTIONS for at in range(ROWS_A_TICK)]


def now_us() -> int:
    return time.monotonic_ns() // 1000


def sleep_until_tick(begun_us: int, tick: int) -> None:
    """Ticks that were missed come at once: the rate holds."""
    wait_us = begun_us + tick * TICK_MS * 1000 - now_us()
    if wait_us > 0:
        time.sleep(wait_us / 1e6)
