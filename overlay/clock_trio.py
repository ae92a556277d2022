"""The time that our machines see: seconds since the Unix epoch, never backwards.

It starts at the wall clock and then goes on with trio's clock, so an NTP step in the middle of a probe moves
nothing. A machine that slept (lid closed, SIGSTOP) sees one jump forwards: its certificates and records age
as everybody else's do.

Rejected: the wall clock itself (it steps back); trio's clock alone (it means nothing to another device).
"""

import time

import trio


def _asleep_s() -> float:
    """Seconds that this machine has been suspended: trio's clock does not count them."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


ASLEEP_S_MIN = 0.1
"""Two clocks cannot be read at once; a smaller difference is the time between the two readings."""


class Clock:
    """To be made inside a trio run: it holds on to that run's clock."""

    def __init__(self, *, wall_s: float | None = None) -> None:
        self._offset_s = (time.time() if wall_s is None else wall_s) - trio.current_time()
        self._asleep_s = _asleep_s()

    def now(self) -> float:
        asleep_s = _asleep_s()
        if asleep_s - self._asleep_s > ASLEEP_S_MIN:
            self._offset_s += asleep_s - self._asleep_s
            self._asleep_s = asleep_s
        return trio.current_time() + self._offset_s

    def trio_time(self, at: float) -> float:
        """When, on trio's clock, our clock will show `at`: for deadlines."""
        return at - self._offset_s
