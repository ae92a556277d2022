"""Columns of a table that changes with event time: each row sees the table as it was at the row's own time.

    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> schema = {"item": "string", "at": "timestamp[s]"}
    >>> prices = app.source("prices", schema={**schema, "price": "int64"}, event_time="at")
    >>> sales = app.source("sales", schema=schema, event_time="at")
    >>> sales.enrich(prices, on="item").select("item", "price").sink("out")
    >>> changes = [{"item": "oar", "price": 5, "at": 10}, {"item": "oar", "price": 6, "at": 20}]
    >>> run_rows(app, {"sales": [{"item": "oar", "at": at} for at in (9, 10, 25)], "prices": changes})["out"]
    [{'item': 'oar', 'price': None}, {'item': 'oar', 'price': 5}, {'item': 'oar', 'price': 6}]

A row waits until the watermark has passed it, so that every change up to its time is known; then it sees the latest
change that is not after it (of equal times, the one that came last). Rows go out in order of time. A change that is
replaced by another behind the watermark is forgotten, so memory holds one change a key and what lies ahead.

Promises: while nothing is late, the result depends on the rows and their times, not on who came first nor on batches.
A row behind the watermark goes to `.late()`: what the table was then may be forgotten. A late change counts from now.
A table that ended or is idle holds nobody up (see Idle in messages.py); what it says after that is a late change.
Rejected: answering at once and correcting later; no sink here can take a row back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dataflow.batches import Ints, keep, take
from dataflow.behind import Behind
from dataflow.graph import Flow
from dataflow.messages import TIME_MIN_US, Data
from dataflow.operators.base import MAIN, SIDE, Output, Settled, set_aside
from dataflow.state.matching import codes, latest_before, shared_codes
from dataflow.state.row_buffer import RowBuffer
from dataflow.state.snapshot import Stateful, Tables
from dataflow.times import TimeColumn

ROWS, CHANGES = 0, 1
TABLES = ("rows", "changes")
CHANGES_MIN = 1024  # fewer are not worth looking for those that were replaced


class EnrichAsOf(Stateful):
    ports = 2

    def __init__(
        self, key: tuple[str, ...], flows: tuple[Flow, Flow], added: list[str], schema: pa.Schema, *, inner: bool
    ) -> None:
        self._key = key
        self._times = tuple(_timed(flow) for flow in flows)
        # The finer of the two units, so that neither side is rounded.
        finest = max(time.units_per_second for time in self._times)
        self._scales = tuple(finest // time.units_per_second for time in self._times)
        self._added = added
        self._schema = schema
        self._inner = inner
        self._buffers = tuple(RowBuffer(key, flow.schema) for flow in flows)
        self._watermark_us = TIME_MIN_US
        self._kept = 0  # changes that were left when we last looked for those that were replaced

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        times = self._times[source].of(batch)
        if source == CHANGES:
            self._buffers[CHANGES].append(batch, times)
            return []
        late = times < self._times[ROWS].ceil_units(self._watermark_us)
        if not late.any():
            self._buffers[ROWS].append(batch, times)
            return []
        self._buffers[ROWS].append(keep(batch, ~late), times[~late])
        return [(SIDE, Data(keep(batch, late)))]

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        if source == CHANGES:
            return [], batch, behind  # rows in front of its watermark have gone without it
        times = self._times[ROWS]
        late = times.of(batch)[behind.rows] < times.ceils_units(behind.watermarks_us)
        return set_aside(batch, behind, late=late)

    def on_watermark(self, watermark_us: int) -> list[Output]:
        self._watermark_us = max(self._watermark_us, watermark_us)
        rows, times = self._buffers[ROWS].take_below(self._times[ROWS].ceil_units(self._watermark_us))
        made = self._extended(take(rows, order := np.argsort(times, kind="stable")), times[order])
        if len(self._buffers[CHANGES]) > 2 * max(self._kept, CHANGES_MIN):
            self._forget()
        return [(MAIN, Data(made))] if made.num_rows else []

    def _extended(self, rows: pa.RecordBatch, times: Ints) -> pa.RecordBatch:
        changes, change_times = self._buffers[CHANGES].all()
        mine, theirs = shared_codes(
            [rows.column(name) for name in self._key],
            [changes.column(name) for name in self._key],
            (rows.num_rows, changes.num_rows),
        )
        found = latest_before((mine, times * self._scales[ROWS]), (theirs, change_times * self._scales[CHANGES]))
        if self._inner:
            rows, found = keep(rows, found >= 0), found[found >= 0]
        at = pa.array(found, mask=found < 0)
        return pa.RecordBatch.from_arrays(
            [*rows.columns, *(changes.column(name).take(at) for name in self._added)], schema=self._schema
        )

    def _forget(self) -> None:
        """Changes behind the watermark that no row can see any more, because a later one is behind it too."""
        rows, times = self._buffers[CHANGES].all()
        past = np.flatnonzero(times < self._times[CHANGES].ceil_units(self._watermark_us))
        key = codes([rows.column(name).take(pa.array(past)) for name in self._key], len(past), nulls_match=True)
        order = np.lexsort((np.arange(len(past)), times[past], key))
        last = np.append(key[order][1:] != key[order][:-1], True) if len(past) else np.empty(0, np.bool_)
        kept = np.ones(len(times), np.bool_)
        kept[past[order[~last]]] = False
        self._buffers[CHANGES].retain(kept)
        self._kept = len(self._buffers[CHANGES])

    # -- state: what was replaced follows from the changes and the watermark --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        if not changed:
            self._forget()
        return {name: buffer.dump(changed=changed) for name, buffer in zip(TABLES, self._buffers, strict=True)}, {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        self._buffers[TABLES.index(name)].load(rows)

    def clean(self) -> None:
        for buffer in self._buffers:
            buffer.clean()

    def marks(self) -> dict[str, int]:
        return {"watermark_us": self._watermark_us}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._watermark_us = marks["watermark_us"]
        self._buffers[ROWS].take_below(self._times[ROWS].ceil_units(self._watermark_us))


def _timed(flow: Flow) -> TimeColumn:
    assert flow.time is not None
    return flow.time
