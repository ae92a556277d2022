"""Which of the instances that could run is run next, when there are fewer cores than instances.

`MostQueued` takes the one with the most rows waiting (EdgeWise, ATC 2019): queues stay level, so rows spend less
time in them, and larger batches are put together where that pays most. An instance with little to do would starve
beside a busy one, so waiting counts too: each step that passes it by is worth `AGE_ROWS` rows.

Pure; one interface. `RoundRobin` is here to be compared with (bench/edges.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dataflow.hosting.assignment import InstanceId

AGE_ROWS = 1024
"""An instance with one row waits for at most 64 others' full batches of 64k rows."""


@dataclass(frozen=True, slots=True)
class Queue:
    """An instance that could run now: rows that wait for it, and for how many steps it has been passed by."""

    instance: InstanceId
    rows: int
    passed_by: int


class Choice(Protocol):
    def pick(self, queues: Sequence[Queue]) -> Queue:
        """One of them; there is at least one. They come sorted by instance."""
        ...


class MostQueued:
    def pick(self, queues: Sequence[Queue]) -> Queue:
        return max(queues, key=lambda it: it.rows + AGE_ROWS * it.passed_by)  # the first of equals


class RoundRobin:
    def __init__(self) -> None:
        self._last: InstanceId | None = None

    def pick(self, queues: Sequence[Queue]) -> Queue:
        last = self._last
        following = (it for it in queues if last is None or it.instance > last)
        chosen = next(following, queues[0])
        self._last = chosen.instance
        return chosen
