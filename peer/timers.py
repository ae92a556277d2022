"""Give events back when they are due: one heap and one sleeping task for all nodes of a process.

Rejected: a task for each timer (a node sets several a second and cancels none).
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

import trio

from overlay.clock_trio import Clock

NAP_S_MAX = 3600.0
"""Sleep no longer at once: trio's clock stands still while a machine is suspended, ours does not."""


class Timers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._order = count()
        self._sooner = trio.Event()

    def set(self, at: float, call: Callable[[Any], None], event: Any) -> None:
        """Call `call(event)` once `now >= at`; events of one moment come in the order of their setting."""
        is_sooner = not self._heap or at < self._heap[0][0]
        heapq.heappush(self._heap, (at, next(self._order), call, event))
        if is_sooner:
            self._sooner.set()

    def __len__(self) -> int:
        return len(self._heap)

    async def run(self) -> None:
        while True:
            self._sooner = trio.Event()
            now = self._clock.now()
            while self._heap and self._heap[0][0] <= now:
                _, _, call, event = heapq.heappop(self._heap)
                call(event)
            until = min(self._heap[0][0], now + NAP_S_MAX) if self._heap else now + NAP_S_MAX
            with trio.move_on_at(self._clock.trio_time(until)):
                await self._sooner.wait()
