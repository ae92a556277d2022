"""Aggregate rows by key and window of time (tumbling or sliding).

    >>> from dataflow import App, col, count, tumbling
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> rows = app.source("in", schema={"k": "string", "x": "int64", "at": "timestamp[s]"}, event_time="at")
    >>> sums = rows.key_by("k").window(tumbling("10s")).aggregate(n=count(), top=col("x").max())
    >>> sums.select("k", "n", "top").sink("out")
    >>> data = [{"k": "a", "x": x, "at": at} for x, at in ((1, 0), (5, 9), (7, 10))]
    >>> run_rows(app, {"in": data})["out"]
    [{'k': 'a', 'n': 2, 'top': 5}, {'k': 'a', 'n': 1, 'top': 7}]

A window has one result, given when the watermark passes its end plus the allowed lateness. A row whose windows
are all closed goes to the late stream. Rows are folded into panes; see state/panes.py.

Promises: results of a window come in order of each key's first row, windows in order of time.
Rejected: firing again for late rows. A finished stream never takes a row back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dataflow.aggregates import AggregatePlan
from dataflow.batches import Ints, keep
from dataflow.behind import Behind
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, SIDE, Output, Settled
from dataflow.operators.window_times import WindowTimes, require_time, window_fields, window_flow, window_times
from dataflow.schema import require_columns
from dataflow.state.accumulators import Aggregate, finish
from dataflow.state.columns import to_arrow
from dataflow.state.keys import Keys
from dataflow.state.panes import Panes, distinct_panes
from dataflow.state.snapshot import Stateful, Tables
from dataflow.state.window_parts import Partial, WindowParts
from dataflow.windows import TimeWindow


class WindowAggregate(Stateful):
    ports = 2

    def __init__(self, key: Sequence[str], plan: AggregatePlan, times: WindowTimes, flow: Flow, out: pa.Schema) -> None:
        self._key = tuple(key)
        self._plan = plan
        self._times = times
        self._out = out
        self._keys = Keys(key, [flow.schema.field(name).type for name in key])
        self._panes = Panes(self._keys, plan.aggregates)
        self._next_start: int | None = None  # windows that begin before are closed
        self._windows = WindowParts(self._panes, plan.aggregates, times.shape)

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        out: list[Output] = []
        panes = self._times.panes_of(self._times.time.of(batch))
        distinct = distinct_panes(panes)
        if self._next_start is not None and self._times.shape.last_start(int(distinct[0])) < self._next_start:
            late = panes // self._times.shape.slide * self._times.shape.slide < self._next_start
            out.append((SIDE, Data(keep(batch, late))))
            batch, panes = keep(batch, ~late), panes[~late]
            if not batch.num_rows:
                return out
            distinct = distinct_panes(panes)
        self._windows.forget(distinct)
        slots, _ = self._keys.intern([batch.column(name) for name in self._key], batch.num_rows)
        self._panes.fold(slots, panes, distinct, self._plan.inputs(batch))
        return out

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        return self._times.settle(batch, behind)

    def on_watermark(self, watermark_us: int) -> list[Output]:
        end = self._times.closed_panes(watermark_us)
        shape = self._times.shape
        # The first window that is not over yet.
        next_start = ((end - shape.size) // shape.slide + 1) * shape.slide
        if self._next_start is not None and next_start <= self._next_start:
            return []
        out = self._close_tumbling(next_start) if shape.size == shape.slide else self._close_sliding(next_start)
        self._next_start = next_start
        return out

    def held_watermark(self, watermark_us: int) -> int:
        return watermark_us - self._times.allowed_us

    def _close_tumbling(self, next_start: int) -> list[Output]:
        over = [pane for pane in self._panes.open_panes() if pane < next_start]
        if not over:
            return []
        entries = np.concatenate([self._panes.members(pane) for pane in over])
        starts = self._panes.panes_of(entries)
        rows = self._result(self._panes.key_slots(entries), starts, self._panes.sums.take(entries))
        self._panes.close(over)
        return [(MAIN, Data(rows))]

    def _close_sliding(self, next_start: int) -> list[Output]:
        out: list[Output] = []
        shape = self._times.shape
        start = self._next_start
        while len(self._panes):
            earliest = shape.first_start(self._panes.open_panes()[0])
            start = earliest if start is None else max(start, earliest)
            if start >= next_start:
                break
            end = self._windows.stretch(start, next_start)
            slots, starts, partial = self._windows.between(start, end)
            if len(slots):
                out.append((MAIN, Data(self._result(slots, starts, partial))))
            self._panes.close([pane for pane in self._panes.open_panes() if pane < end])
            self._windows.forget_before(end)
            start = end
        return out

    def _result(self, slots: Ints, panes: Ints, partial: Partial) -> pa.RecordBatch:
        kind = self._times.time.kind
        starts = panes * self._times.pane + self._times.offset
        ends = starts + self._times.shape.size * self._times.pane
        arrays = [
            *self._keys.columns(slots),
            to_arrow(starts, kind),
            to_arrow(ends, kind),
            *finish(self._plan.aggregates, partial),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._out)

    # -- state --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        return {"panes": self._panes.dump(changed=changed)}, {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        self._panes.load(rows)

    def clean(self) -> None:
        self._panes.clean()

    def marks(self) -> dict[str, int]:
        if self._next_start is None:
            return {}
        return {"next_start": self._next_start}

    def set_marks(self, marks: dict[str, int]) -> None:
        if "next_start" in marks:
            self._next_start = marks["next_start"]
            self._panes.close([pane for pane in self._panes.open_panes() if pane < self._next_start])


def draft(
    flow: Flow, key: tuple[str, ...], window: TimeWindow, allowed_us: int, plan: AggregatePlan, place: Place
) -> Draft:
    time = require_time(flow, "aggregate", place)
    require_columns(flow.schema, key, operator="key_by", place=place)
    try:
        times = window_times(flow, window, allowed_us)
    except AppError as error:
        raise AppError(f"aggregate: {error.message}", place=place) from error
    fields = [*(flow.schema.field(name) for name in key), *window_fields(time), *plan.fields()]
    out = window_flow(time, fields, "aggregate", place)
    return Draft(
        "aggregate",
        (out, flow),
        lambda: WindowAggregate(key, plan, times, flow, out.schema),
        detail=f"{window}, {', '.join(_text(aggregate) for aggregate in plan.aggregates)}",
        stateful=True,
        key=key,
        ports=("", "late"),
    )


def _text(aggregate: Aggregate) -> str:
    return f"{aggregate.name}={aggregate.kind}"
