"""Where rows enter: event time is read and watermarks are made.

    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> rows = app.source("in", schema={"x": "int64", "at": "timestamp[s]"}, event_time="at", lateness="2s")
    >>> rows.select("x").sink("out")
    >>> rows.dead_letters().select("reason").sink("bad")
    >>> run_rows(app, {"in": [{"x": 1, "at": 0}, {"x": 2, "at": None}]})
    {'out': [{'x': 1}], 'bad': [{'reason': 'event time "at" is null'}]}

The watermark follows the highest time seen by `lateness`. A row that is behind it is marked with the watermark
of the rows before it (see behind.py), so that it does not matter how the rows were cut into batches.
A row without an event time cannot be placed and becomes a dead letter.

Promises: the same rows in the same order give the same late rows.
Rejected: one watermark a batch; which rows are late would depend on the size of batches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import Ints
from dataflow.behind import Behind
from dataflow.dead_letters import DEAD_LETTER_SCHEMA, dead_letters
from dataflow.graph import Draft, Flow
from dataflow.messages import Data, Watermark, in_turn
from dataflow.operators.base import MAIN, SIDE, Output
from dataflow.state.snapshot import Stateful, Tables
from dataflow.times import INT64_MAX, TimeColumn, running_max


class Source(Stateful):
    ports = 2

    def __init__(self, name: str, time: TimeColumn | None, lateness: int) -> None:
        self._name = name
        self._time = time
        self._lateness = lateness
        self._highest = -INT64_MAX
        self._announced = False  # after a restore nobody downstream knows our watermark

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        if self._time is None:
            return [(MAIN, Data(batch))]
        out: list[Output] = []
        if batch.column(self._time.name).null_count:
            out, batch = self._refuse_untimed(batch)
        if not batch.num_rows:
            return out
        times = self._time.of(batch)
        data = Data(batch, self._behind(times))
        # Rows that go one way may not run ahead of the watermark that is to come the other way.
        out += [(MAIN, message) for message in (in_turn(data) if self.meets_itself else (data,))]
        return out + self._advance(int(times.max()))

    def _behind(self, times: Ints) -> Behind | None:
        assert self._time is not None
        if int(times.min()) >= self._highest and (len(times) < 2 or bool((times[1:] >= times[:-1]).all())):
            return None
        highest = running_max(times, self._highest)
        late = np.flatnonzero(times < highest - self._lateness)
        if not late.size:
            return None
        return Behind(late, self._time.floors_us(highest[late] - self._lateness))

    def _advance(self, highest: int) -> list[Output]:
        assert self._time is not None
        if highest <= self._highest and self._announced:
            return []
        self._highest = max(highest, self._highest)
        self._announced = True
        return [(MAIN, Watermark(self._time.floor_us(self._highest - self._lateness)))]

    def _refuse_untimed(self, batch: pa.RecordBatch) -> tuple[list[Output], pa.RecordBatch]:
        assert self._time is not None
        timed = batch.column(self._time.name).is_valid()
        bad = batch.filter(pc.invert(timed)).to_pylist()
        reason = f'event time "{self._time.name}" is null'
        letters = dead_letters([(self._name, "", 0, reason, str(row)) for row in bad])
        return [(SIDE, Data(letters))], batch.filter(timed)

    # -- state: how far event time has come --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        return {}, {}

    def marks(self) -> dict[str, int]:
        return {"highest": self._highest}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._highest = marks["highest"]
        self._announced = False


def draft(name: str, flow: Flow, lateness_us: int) -> Draft:
    lateness = flow.time.span(lateness_us, what="lateness") if flow.time else 0
    return Draft(
        "source",
        (flow, Flow(DEAD_LETTER_SCHEMA)),
        lambda: Source(name, flow.time, lateness),
        ports=("", "dead_letters"),
    )
