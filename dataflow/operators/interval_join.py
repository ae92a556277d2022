"""Pairs of rows of two streams with equal keys whose times lie within an interval of each other.

    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> orders = app.source("orders", schema={"id": "int64", "at": "timestamp[s]"}, event_time="at")
    >>> pays = app.source("pays", schema={"id": "int64", "sum": "int64", "at": "timestamp[s]"}, event_time="at")
    >>> orders.key_by("id").join(pays.key_by("id"), within=("0s", "5s")).select("id", "sum").sink("out")
    >>> rows = {"orders": [{"id": 1, "at": 10}], "pays": [{"id": 1, "sum": 3, "at": 15}, {"id": 1, "sum": 4, "at": 16}]}
    >>> run_rows(app, rows)["out"]
    [{'id': 1, 'sum': 3}]

A pair goes out when its second row arrives. The right time lies in [left + lower, left + upper], both ends
included. Rows are kept until the watermark says that no partner can come.
"""

from __future__ import annotations

import pyarrow as pa

from dataflow.batches import Ints, keep
from dataflow.durations import Duration, duration_text, duration_us
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import TIME_MIN_US, Data
from dataflow.operators.base import MAIN, Output
from dataflow.operators.joined_columns import JoinedColumns
from dataflow.operators.window_join import LEFT, RIGHT, SIDES
from dataflow.operators.window_times import require_time
from dataflow.state.matching import near_pairs, shared_codes
from dataflow.state.row_buffer import RowBuffer
from dataflow.state.snapshot import Stateful, Tables
from dataflow.times import TimeColumn


class IntervalJoin(Stateful):
    def __init__(
        self,
        keys: tuple[tuple[str, ...], tuple[str, ...]],
        flows: tuple[Flow, Flow],
        bounds: tuple[int, int],
        columns: JoinedColumns,
        out: pa.Schema,
        held_us: int,
    ) -> None:
        self._keys = keys
        self._flows = flows
        self._lower, self._upper = bounds
        self._columns = columns
        self._out = out
        self._held_us = held_us
        self._time = flows[LEFT].time or flows[RIGHT].time
        self._buffers = tuple(RowBuffer(key, flow.schema) for key, flow in zip(keys, flows, strict=True))
        assert self._time is not None
        self._watermark = self._time.ceil_units(TIME_MIN_US)

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        time = self._flows[source].time
        assert time is not None
        times = time.of(batch)
        other, other_times = self._buffers[1 - source].all()
        out: list[Output] = []
        if other.num_rows:
            mine, theirs = (batch, times), (other, other_times)
            out = self._pairs(mine, theirs) if source == LEFT else self._pairs(theirs, mine)
        waits = times >= self._oldest(source)
        self._buffers[source].append(batch if waits.all() else keep(batch, waits), times[waits])
        return out

    def _pairs(self, left: tuple[pa.RecordBatch, Ints], right: tuple[pa.RecordBatch, Ints]) -> list[Output]:
        (left_rows, left_times), (right_rows, right_times) = left, right
        one, other = shared_codes(
            [left_rows.column(name) for name in self._keys[LEFT]],
            [right_rows.column(name) for name in self._keys[RIGHT]],
            (left_rows.num_rows, right_rows.num_rows),
        )
        at_left, at_right = near_pairs((one, left_times), (other, right_times), self._lower, self._upper)
        if not len(at_left):
            return []
        arrays = self._columns.arrays(left_rows, at_left, right_rows, at_right)
        return [(MAIN, Data(pa.RecordBatch.from_arrays(arrays, schema=self._out)))]

    def on_watermark(self, watermark_us: int) -> list[Output]:
        assert self._time is not None
        self._watermark = max(self._watermark, self._time.ceil_units(watermark_us))
        for side, buffer in enumerate(self._buffers):
            buffer.take_below(self._oldest(side))
        return []

    def _oldest(self, side: int) -> int:
        """The oldest time of that side that a row still to come may pair with."""
        return self._watermark - self._upper if side == LEFT else self._watermark + self._lower

    def held_watermark(self, watermark_us: int) -> int:
        return watermark_us - self._held_us

    # -- state --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        return {name: buffer.dump(changed=changed) for name, buffer in zip(SIDES, self._buffers, strict=True)}, {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        self._buffers[SIDES.index(name)].load(rows)

    def clean(self) -> None:
        for buffer in self._buffers:
            buffer.clean()

    def marks(self) -> dict[str, int]:
        return {"watermark": self._watermark}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._watermark = marks["watermark"]
        for side, buffer in enumerate(self._buffers):
            buffer.take_below(self._oldest(side))


def draft(
    left: Flow,
    right: Flow,
    left_key: tuple[str, ...],
    right_key: tuple[str, ...],
    within: tuple[Duration, Duration],
    how: str,
    suffix: str,
    place: Place,
) -> Draft:
    if how != "inner":
        raise AppError('join: within= gives matches only; how= must be "inner"', place=place)
    time = require_time(left, "join", place)
    other = require_time(right, "join (right side)", place)
    if _unit(time) != _unit(other):
        raise AppError(f'join: event times "{time.name}" and "{other.name}" differ in unit', place=place)
    try:
        lower_us, upper_us = (duration_us(bound, what="within", negative=True) for bound in within)
        bounds = time.span(lower_us, what="within"), time.span(upper_us, what="within")
    except AppError as error:
        raise AppError(f"join: {error.message}", place=place) from error
    except (TypeError, ValueError) as error:
        raise AppError(f'join: within={within!r} is not a pair such as ("-5s", "5s")', place=place) from error
    if bounds[0] > bounds[1]:
        raise AppError(f"join: within={within!r} ends before it begins", place=place)
    columns = JoinedColumns(left, right, left_key, right_key, suffix, place)
    schema = pa.schema(columns.fields)
    # A pair carries the left time, which may be as old as the newest right row minus the upper bound.
    held_us = max(0, upper_us)
    return Draft(
        "join",
        (Flow(schema, time),),
        lambda: IntervalJoin((left_key, right_key), (left, right), bounds, columns, schema, held_us),
        detail=f"within {duration_text(lower_us)} to {duration_text(upper_us)}",
        stateful=True,
        key=left_key,
        right_key=right_key,
    )


def _unit(time: TimeColumn) -> int:
    return time.units_per_second
