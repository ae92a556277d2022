"""Aggregate rows of a key that follow each other closely.

    >>> from dataflow import App, count, session
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> rows = app.source("in", schema={"user": "string", "at": "timestamp[s]"}, event_time="at")
    >>> rows.key_by("user").window(session("10s")).aggregate(clicks=count()).select("user", "clicks").sink("out")
    >>> run_rows(app, {"in": [{"user": "a", "at": 0}, {"user": "a", "at": 9}, {"user": "a", "at": 19}]})["out"]
    [{'user': 'a', 'clicks': 2}, {'user': 'a', 'clicks': 1}]

A session begins with its first row and ends one gap after its last; a row exactly at the end begins another.
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
from dataflow.messages import TIME_MIN_US, Data
from dataflow.operators.base import MAIN, SIDE, Output, Settled, set_aside
from dataflow.operators.window_times import require_time, window_fields, window_flow
from dataflow.schema import require_columns
from dataflow.state.columns import to_arrow
from dataflow.state.keys import Keys
from dataflow.state.sessions import Sessions
from dataflow.state.snapshot import Stateful, Tables
from dataflow.times import INT64_MAX, TimeColumn
from dataflow.windows import SessionWindow


class SessionAggregate(Stateful):
    ports = 2
    settles_again = True

    def __init__(
        self,
        key: Sequence[str],
        plan: AggregatePlan,
        time: TimeColumn,
        gap: int,
        allowed_us: int,
        flow: Flow,
        out: pa.Schema,
    ) -> None:
        self._key = tuple(key)
        self._plan = plan
        self._time = time
        self._gap = gap
        self._allowed_us = allowed_us
        self._out = out
        self._keys = Keys(key, [flow.schema.field(name).type for name in key])
        self._sessions = Sessions(self._keys, plan.aggregates, gap)
        self._closed_before = time.ceil_units(TIME_MIN_US)

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        out: list[Output] = []
        times = self._time.of(batch)
        if int(times.min()) + self._gap <= self._closed_before:
            late = times + self._gap <= self._closed_before
            out.append((SIDE, Data(keep(batch, late))))
            batch, times = keep(batch, ~late), times[~late]
            if not batch.num_rows:
                return out
        slots, _ = self._keys.intern([batch.column(name) for name in self._key], batch.num_rows)
        self._sessions.fold(slots, times, self._plan.inputs(batch))
        return out

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        times = self._time.of(batch)[behind.rows]
        closed_before = self._time.ceils_units(behind.watermarks_us - self._allowed_us)
        late = times + self._gap <= closed_before
        # Such a row would join a session that was closed just before it came, if any was.
        torn = ~late & (times < closed_before) & (closed_before >= self._next_end(batch, behind.rows[late]))
        return set_aside(batch, behind, late=late, torn=torn, held_us=self._allowed_us)

    def _next_end(self, batch: pa.RecordBatch, late: Ints) -> int:
        """No session ends before, neither one that is open nor one that these rows may begin."""
        times = np.delete(self._time.of(batch), late)
        return min(self._sessions.next_end(), int(times.min(initial=INT64_MAX - self._gap)) + self._gap)

    def on_watermark(self, watermark_us: int) -> list[Output]:
        self._closed_before = max(self._closed_before, self._time.ceil_units(watermark_us - self._allowed_us))
        over = self._sessions.over(self._closed_before)
        if not len(over):
            return []
        kind = self._time.kind
        arrays = [
            *self._keys.columns(self._sessions.key_of[over]),
            to_arrow(self._sessions.first[over], kind),
            to_arrow(self._sessions.last[over] + self._gap, kind),
            *self._sessions.sums.finish(over),
        ]
        self._sessions.release(over)
        return [(MAIN, Data(pa.RecordBatch.from_arrays(arrays, schema=self._out)))]

    def held_watermark(self, watermark_us: int) -> int:
        return watermark_us - self._allowed_us

    # -- state --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        rows, replaced = self._sessions.dump(changed=changed)
        return {"sessions": rows}, {"sessions": replaced} if changed else {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        self._sessions.load(rows)

    def remove(self, name: str, rows: pa.RecordBatch) -> None:
        self._sessions.replace(rows)

    def clean(self) -> None:
        self._sessions.clean()

    def marks(self) -> dict[str, int]:
        return {"closed_before": self._closed_before}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._closed_before = marks["closed_before"]
        self._sessions.release(self._sessions.over(self._closed_before))


def draft(
    flow: Flow,
    key: tuple[str, ...],
    window: SessionWindow,
    allowed_us: int,
    plan: AggregatePlan,
    place: Place,
) -> Draft:
    time = require_time(flow, "aggregate", place)
    require_columns(flow.schema, key, operator="key_by", place=place)
    try:
        gap = time.span(window.gap_us, what="session gap")
    except AppError as error:
        raise AppError(f"aggregate: {error.message}", place=place) from error
    fields = [*(flow.schema.field(name) for name in key), *window_fields(time), *plan.fields()]
    out = window_flow(time, fields, "aggregate", place)
    return Draft(
        "aggregate",
        (out, flow),
        lambda: SessionAggregate(key, plan, time, gap, allowed_us, flow, out.schema),
        detail=f"{window}, {', '.join(aggregate.name for aggregate in plan.aggregates)}",
        stateful=True,
        key=key,
        ports=("", "late"),
    )
