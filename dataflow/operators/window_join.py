"""Pairs of rows of two streams with equal keys in the same window.

    >>> from dataflow import App, tumbling
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> people = app.source("people", schema={"id": "int64", "at": "timestamp[s]"}, event_time="at")
    >>> sales = app.source("sales", schema={"who": "int64", "item": "string", "at": "timestamp[s]"}, event_time="at")
    >>> pairs = people.key_by("id").join(sales.key_by("who"), window=tumbling("10s"))
    >>> pairs.select("id", "item").sink("out")
    >>> sold = [{"who": 7, "item": "oar", "at": 9}, {"who": 7, "item": "net", "at": 10}]
    >>> run_rows(app, {"people": [{"id": 7, "at": 1}], "sales": sold})["out"]
    [{'id': 7, 'item': 'oar'}]

Rows wait until their window closes, then one vectorised match gives all pairs. `how="left"` also gives left
rows without a match. Null keys match nothing. Late rows go to `.late()` if left, and are dropped if right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dataflow.batches import keep
from dataflow.behind import Behind
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, SIDE, Output, Settled, set_aside
from dataflow.operators.joined_columns import JoinedColumns
from dataflow.operators.window_times import (
    WindowTimes,
    require_time,
    window_fields,
    window_flow,
    window_times,
)
from dataflow.state.columns import to_arrow
from dataflow.state.matching import equal_pairs, shared_codes
from dataflow.state.row_buffer import RowBuffer
from dataflow.state.snapshot import Stateful, Tables
from dataflow.times import INT64_MAX
from dataflow.windows import TimeWindow

LEFT, RIGHT = 0, 1
SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class Side:
    key: tuple[str, ...]
    flow: Flow
    times: WindowTimes


class WindowJoin(Stateful):
    ports = 2

    def __init__(self, sides: tuple[Side, Side], columns: JoinedColumns, out: pa.Schema, *, keep_left: bool) -> None:
        self._sides = sides
        self._columns = columns
        self._out = out
        self._keep_left = keep_left
        self._buffers = tuple(RowBuffer(side.key, side.flow.schema) for side in sides)
        self._next = -INT64_MAX  # windows before this one are closed

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        times = self._sides[source].times
        windows = times.panes_of(times.time.of(batch))
        late = windows < self._next
        out: list[Output] = []
        if late.any():
            if source == LEFT:
                out.append((SIDE, Data(keep(batch, late))))
            batch, windows = keep(batch, ~late), windows[~late]
        self._buffers[source].append(batch, windows)
        return out

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        times = self._sides[source].times
        closed = np.minimum(*(side.times.closed(behind.watermarks_us) for side in self._sides))
        late = times.panes_of(times.time.of(batch)[behind.rows]) < closed
        out, rest, _ = set_aside(batch, behind, late=late)
        return out if source == LEFT else [], rest, None

    def on_watermark(self, watermark_us: int) -> list[Output]:
        # Rows of the finer unit may still come when the coarser one has no instant left in the window.
        self._next = max(self._next, min(side.times.closed_panes(watermark_us) for side in self._sides))
        left, left_windows = self._buffers[LEFT].take_below(self._next)
        right, right_windows = self._buffers[RIGHT].take_below(self._next)
        if not left.num_rows or not (right.num_rows or self._keep_left):
            return []
        left_keys, right_keys = (
            [pa.array(windows), *(rows.column(name) for name in side.key)]
            for rows, windows, side in (
                (left, left_windows, self._sides[0]),
                (right, right_windows, self._sides[1]),
            )
        )
        one, other = shared_codes(left_keys, right_keys, (left.num_rows, right.num_rows))
        left_rows, right_rows = equal_pairs(one, other)
        if self._keep_left:
            alone = np.setdiff1d(np.arange(left.num_rows), left_rows)
            left_rows = np.concatenate([left_rows, alone])
            right_rows = np.concatenate([right_rows, np.full(len(alone), -1)])
        if not len(left_rows):
            return []
        # Windows in order of time, and rows in order of arrival within each. Mostly they come like that.
        windows = left_windows[left_rows]
        if self._keep_left or (windows[1:] < windows[:-1]).any():
            order = np.lexsort((left_rows, windows))
            left_rows, right_rows, windows = left_rows[order], right_rows[order], windows[order]
        times = self._sides[LEFT].times
        starts = windows * times.pane + times.offset
        arrays = [
            *self._columns.arrays(left, left_rows, right, right_rows),
            to_arrow(starts, times.time.kind),
            to_arrow(starts + times.pane, times.time.kind),
        ]
        return [(MAIN, Data(pa.RecordBatch.from_arrays(arrays, schema=self._out)))]

    # -- state --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        return {name: buffer.dump(changed=changed) for name, buffer in zip(SIDES, self._buffers, strict=True)}, {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        self._buffers[SIDES.index(name)].load(rows)

    def clean(self) -> None:
        for buffer in self._buffers:
            buffer.clean()

    def marks(self) -> dict[str, int]:
        return {"next": self._next}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._next = marks["next"]
        for buffer in self._buffers:
            buffer.take_below(self._next)


def draft(
    left: Flow,
    right: Flow,
    left_key: tuple[str, ...],
    right_key: tuple[str, ...],
    window: TimeWindow,
    how: str,
    suffix: str,
    place: Place,
) -> Draft:
    if how not in ("inner", "left"):
        raise AppError(f'join: how={how!r} is neither "inner" nor "left"', place=place)
    if not isinstance(window, TimeWindow) or window.size_us != window.slide_us:
        raise AppError(f"join: needs a tumbling window, not {window}", place=place)
    time = require_time(left, "join", place)
    require_time(right, "join (right side)", place)
    columns = JoinedColumns(left, right, left_key, right_key, suffix, place)
    try:
        sides = (
            Side(left_key, left, window_times(left, window, 0)),
            Side(right_key, right, window_times(right, window, 0)),
        )
    except AppError as error:
        raise AppError(f"join: {error.message}", place=place) from error
    fields = [field for field in columns.fields if field.name not in ("window_start", "window_end")]
    if len(fields) < len(columns.fields):
        raise AppError("join: the left side already has window_start or window_end; select them away", place=place)
    out = window_flow(time, [*fields, *window_fields(time)], "join", place)
    return Draft(
        "join",
        (out, left),
        lambda: WindowJoin(sides, columns, out.schema, keep_left=how == "left"),
        detail=f"{window}, {how}",
        stateful=True,
        key=left_key,
        right_key=right_key,
        ports=("", "late"),
    )
