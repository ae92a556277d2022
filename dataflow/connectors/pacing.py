"""When recorded rows are due, if a file is replayed as fast as it was recorded (or so many times faster). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dataflow.times import TimeColumn

STEP_S = 0.05  # rows that are due within one step travel together


class Pacer:
    def __init__(self, column: str, kind: pa.DataType, speed: float) -> None:
        self._time = TimeColumn(column, kind)
        self._speed = speed
        self._origin: tuple[int, float] | None = None  # the first row's time, and when it was given

    def parts(self, batch: pa.RecordBatch, now: float) -> Iterator[tuple[float, pa.RecordBatch]]:
        """Slices of a batch with the moment each is due."""
        times = self._time.of(batch)
        if self._origin is None:
            self._origin = (int(times[0]), now)
        first, begin = self._origin
        due = begin + (times - first) / (self._time.units_per_second * self._speed)
        steps = np.maximum.accumulate(np.floor((due - begin) / STEP_S))
        cuts = np.flatnonzero(np.diff(steps)) + 1
        edges = [0, *cuts.tolist(), len(times)]
        for start, end in pairwise(edges):
            yield float(due[start:end].max()), batch.slice(start, end - start)
