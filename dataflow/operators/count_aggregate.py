"""Aggregate every n rows of a key.

    >>> from dataflow import App, col, count_window
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> rows = app.source("in", schema={"k": "string", "x": "int64"})
    >>> rows.key_by("k").window(count_window(2)).aggregate(total=col("x").sum()).sink("out")
    >>> run_rows(app, {"in": [{"k": "a", "x": 1}, {"k": "b", "x": 5}, {"k": "a", "x": 2}, {"k": "a", "x": 9}]})["out"]
    [{'k': 'a', 'total': 3}]

Results come in the order in which windows fill. A window that never fills has no result.
A key with no open window costs nothing: its rows are numbered from zero when it comes back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dataflow.aggregates import AggregatePlan
from dataflow.batches import Ints, concat
from dataflow.behind import Behind
from dataflow.errors import Place
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, Output, Settled
from dataflow.schema import require_columns
from dataflow.state.accumulators import COUNT
from dataflow.state.keys import Keys
from dataflow.state.panes import Panes, distinct_panes
from dataflow.state.slots import grown
from dataflow.state.snapshot import Stateful, Tables, key_columns, keyed_table
from dataflow.windows import CountWindow


def numbers_in_group(groups: Ints) -> Ints:
    """For each row, how many rows of its group come before it."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(begins)
    rank = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    out = np.empty_like(rank)
    out[order] = rank
    return out


class CountAggregate(Stateful):
    def __init__(self, key: Sequence[str], plan: AggregatePlan, rows: int, flow: Flow, out: pa.Schema) -> None:
        self._key = tuple(key)
        self._plan = plan
        self._rows = rows
        self._out = out
        self._keys = Keys(key, [flow.schema.field(name).type for name in key])
        self._panes = Panes(self._keys, plan.aggregates)
        self._seen: Ints = np.zeros(self._keys.capacity, np.int64)
        self._removed: list[pa.RecordBatch] = []

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        slots, fresh = self._keys.intern([batch.column(name) for name in self._key], batch.num_rows)
        if self._keys.capacity > len(self._seen):
            self._seen = grown(self._seen, self._keys.capacity)
        self._seen[fresh] = 0
        numbers = self._seen[slots] + numbers_in_group(slots)
        np.add.at(self._seen, slots, 1)
        windows = numbers // self._rows
        entries = self._panes.fold(slots, windows, distinct_panes(windows), self._plan.inputs(batch))
        full = entries[(numbers + 1) % self._rows == 0]
        if not len(full):
            return []
        arrays = [*self._keys.columns(self._panes.key_slots(full)), *self._panes.sums.finish(full)]
        if self.is_tracked:
            self._removed.append(self._names(full))
        self._panes.discard(full)
        return [(MAIN, Data(pa.RecordBatch.from_arrays(arrays, schema=self._out)))]

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        return [], batch, None  # rows are counted as they come, whatever their time

    def _names(self, entries: Ints) -> pa.RecordBatch:
        keys = self._keys.columns(self._panes.key_slots(entries))
        return keyed_table(keys, {"pane": pa.array(self._panes.panes_of(entries))})

    # -- state: the open windows; how many rows a key has had follows from them --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        removed = {"panes": concat(self._removed, self._removed[0].schema)} if changed and self._removed else {}
        return {"panes": self._panes.dump(changed=changed)}, removed

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        self._panes.load(rows)
        if self._keys.capacity > len(self._seen):
            self._seen = grown(self._seen, self._keys.capacity)
        slots = self._keys.find(key_columns(rows), rows.num_rows)
        self._seen[slots] = rows.column("pane").to_numpy() * self._rows + rows.column(COUNT).to_numpy()

    def remove(self, name: str, rows: pa.RecordBatch) -> None:
        entries = self._panes.find(rows)
        if len(entries):
            self._panes.discard(entries)

    def clean(self) -> None:
        self._panes.clean()
        self._removed = []


def draft(flow: Flow, key: tuple[str, ...], window: CountWindow, plan: AggregatePlan, place: Place) -> Draft:
    require_columns(flow.schema, key, operator="key_by", place=place)
    schema = pa.schema([*(flow.schema.field(name) for name in key), *plan.fields()])
    return Draft(
        "aggregate",
        (Flow(schema),),
        lambda: CountAggregate(key, plan, window.rows, flow, schema),
        detail=f"{window}, {', '.join(aggregate.name for aggregate in plan.aggregates)}",
        stateful=True,
        key=key,
    )
