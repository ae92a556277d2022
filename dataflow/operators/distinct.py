"""The first row of each key; with `within`, the first of each such stretch of event time.

    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> app.source("in", schema={"id": "int64", "x": "string"}).key_by("id").distinct().sink("out")
    >>> run_rows(app, {"in": [{"id": 1, "x": "a"}, {"id": 1, "x": "b"}, {"id": 2, "x": "c"}]})["out"]
    [{'id': 1, 'x': 'a'}, {'id': 2, 'x': 'c'}]

Without `within` every key is remembered for ever; with it, a key is forgotten when the watermark has passed, and
rows too old to be compared with what went out go to `.late()`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dataflow.batches import Bools, Ints, keep, take
from dataflow.behind import Behind
from dataflow.durations import Duration, duration_text, duration_us
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import TIME_MIN_US, Data
from dataflow.operators.base import MAIN, SIDE, Output, Settled, set_aside
from dataflow.operators.window_times import require_time
from dataflow.schema import require_columns
from dataflow.state.index import first_appearances
from dataflow.state.keys import Keys
from dataflow.state.slots import grown
from dataflow.state.snapshot import Stateful, Tables, key_columns, keyed_table
from dataflow.times import TimeColumn


class Distinct(Stateful):
    ports = 2

    def __init__(self, key: Sequence[str], flow: Flow, time: TimeColumn | None, within: int) -> None:
        self._key = tuple(key)
        self._time = time
        self._within = within
        self._keys = Keys(key, [flow.schema.field(name).type for name in key])
        self._given: Ints = np.zeros(self._keys.capacity, np.int64)  # time of the row that went out
        self._dirty: Bools = np.zeros(self._keys.capacity, np.bool_)
        self._forgotten = 0 if time is None else time.ceil_units(TIME_MIN_US)

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        out: list[Output] = []
        if self._time is not None:
            late = self._time.of(batch) + self._within <= self._forgotten
            if late.any():
                out.append((SIDE, Data(keep(batch, late))))
                batch = keep(batch, ~late)
                if not batch.num_rows:
                    return out
        slots, fresh = self._keys.intern([batch.column(name) for name in self._key], batch.num_rows)
        self._room()
        rows = self._first_rows(slots, fresh)
        if self._time is not None:
            rows = self._again(slots, self._time.of(batch), rows)
        self._dirty[slots[rows]] = True
        return [*out, (MAIN, Data(take(batch, rows)))] if len(rows) else out

    def _first_rows(self, slots: Ints, fresh: Ints) -> Ints:
        new = np.zeros(self._keys.capacity, np.bool_)
        new[fresh] = True
        candidates = np.flatnonzero(new[slots])
        return candidates[first_appearances(slots[candidates])[0]] if len(candidates) else candidates

    def _again(self, slots: Ints, times: Ints, rows: Ints) -> Ints:
        """Rows that come a whole stretch after the one that went out; each round settles one row a key."""
        given = rows
        out = [rows]
        waiting = np.arange(len(slots))
        while True:
            self._given[slots[given]] = times[given]
            settled = np.full(self._keys.capacity, -1, np.int64)
            settled[slots[given]] = given
            # Only rows behind the one just given may follow it.
            waiting = waiting[(settled[slots[waiting]] < waiting)]
            due = waiting[times[waiting] >= self._given[slots[waiting]] + self._within]
            if not len(due):
                return np.sort(np.concatenate(out))
            given = due[first_appearances(slots[due])[0]]
            out.append(given)

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        if self._time is None:
            return [], batch, behind  # what goes out may be behind for others
        times = self._time.of(batch)[behind.rows]
        late = times + self._within <= self._time.ceils_units(behind.watermarks_us)
        return set_aside(batch, behind, late=late, torn=~late)

    def on_watermark(self, watermark_us: int) -> list[Output]:
        if self._time is not None:
            self._forgotten = max(self._forgotten, self._time.ceil_units(watermark_us))
            self._forget()
        return []

    def _forget(self) -> None:
        living = self._keys.living()
        old = living[self._given[living] + self._within <= self._forgotten]
        self._dirty[old] = False
        self._keys.release(old)

    def _room(self) -> None:
        if self._keys.capacity > len(self._given):
            self._given = grown(self._given, self._keys.capacity)
            self._dirty = grown(self._dirty, self._keys.capacity)

    # -- state --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        slots = np.flatnonzero(self._dirty) if changed else self._keys.living()  # a key that was forgotten is clean
        return {"keys": keyed_table(self._keys.columns(slots), {"given": pa.array(self._given[slots])})}, {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        slots, _ = self._keys.intern(key_columns(rows), rows.num_rows)
        self._room()
        self._given[slots] = rows.column("given").to_numpy()

    def clean(self) -> None:
        self._dirty[:] = False

    def marks(self) -> dict[str, int]:
        return {"forgotten": self._forgotten}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._forgotten = marks["forgotten"]
        if self._time is not None:
            self._forget()


def draft(flow: Flow, key: tuple[str, ...], within: Duration | None, place: Place) -> Draft:
    require_columns(flow.schema, key, operator="key_by", place=place)
    time, span, text = None, 0, "for ever"
    if within is not None:
        time = require_time(flow, "distinct", place)
        try:
            span_us = duration_us(within, what="within")
            span, text = time.span(span_us, what="within"), f"within {duration_text(span_us)}"
        except AppError as error:
            raise AppError(f"distinct: {error.message}", place=place) from error
    return Draft(
        "distinct",
        (flow, flow),
        lambda: Distinct(key, flow, time, span),
        detail=text,
        stateful=True,
        key=key,
        ports=("", "late"),
    )
