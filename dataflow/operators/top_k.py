"""The k rows of each key and window that rank first by a column.

    >>> from dataflow import App, tumbling
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> bids = app.source("bids", schema={"item": "string", "price": "int64", "at": "timestamp[s]"}, event_time="at")
    >>> bids.key_by().window(tumbling("10s")).top_k(2, by="price").select("item", "rank").sink("out")
    >>> rows = [{"item": name, "price": price, "at": 1} for name, price in (("oar", 5), ("net", 9), ("rod", 7))]
    >>> run_rows(app, {"bids": rows})["out"]
    [{'item': 'net', 'rank': 1}, {'item': 'rod', 'rank': 2}]

Equal values rank in order of arrival; null ranks last. Candidates are pruned whenever they have doubled, so
memory is bounded by twice k rows a key and pane, plus a batch. Window columns that a row already has are kept
as inner_start and inner_end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import Ints, concat, keep, take
from dataflow.behind import Behind
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, SIDE, Output, Settled
from dataflow.operators.window_times import (
    WindowTimes,
    require_time,
    window_fields,
    window_flow,
    window_times,
)
from dataflow.schema import require_columns
from dataflow.state.columns import to_arrow
from dataflow.state.matching import codes
from dataflow.state.snapshot import Stateful, Tables, keyed_table
from dataflow.times import INT64_MAX
from dataflow.windows import TimeWindow

PRUNE_ROWS_MIN = 4096
PANE, SEQ = "__pane", "__seq"
INNER = {"window_start": "inner_start", "window_end": "inner_end"}


class TopK(Stateful):
    ports = 2

    def __init__(
        self,
        key: Sequence[str],
        times: WindowTimes,
        k: int,
        by: str,
        descending: bool,
        flow: Flow,
        out: pa.Schema,
    ) -> None:
        self._key = tuple(key)
        self._times = times
        self._k = k
        self._by = by
        self._order = "descending" if descending else "ascending"
        self._names = flow.schema.names
        self._out = out
        self._schema = flow.schema.append(pa.field(PANE, pa.int64())).append(pa.field(SEQ, pa.int64()))
        self._parts: list[pa.RecordBatch] = []
        self._pruned_rows = 0
        self._seq = 0
        self._clean_seq = 0  # rows from here on are not in a snapshot yet
        self._next_start = -INT64_MAX

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        panes = self._times.panes_of(self._times.time.of(batch))
        late = panes // self._times.shape.slide * self._times.shape.slide < self._next_start
        out: list[Output] = []
        if late.any():
            out.append((SIDE, Data(keep(batch, late))))
            batch, panes = keep(batch, ~late), panes[~late]
        if batch.num_rows:
            numbers = np.arange(self._seq, self._seq + batch.num_rows)
            self._seq += batch.num_rows
            self._append(batch.columns, panes, numbers)
        return out

    def _append(self, columns: list[pa.Array], panes: Ints, numbers: Ints) -> None:
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(panes), pa.array(numbers)], schema=self._schema)
        self._parts.append(rows)
        if sum(part.num_rows for part in self._parts) > max(2 * self._pruned_rows, PRUNE_ROWS_MIN):
            self._prune()

    def _prune(self) -> pa.RecordBatch:
        rows = concat(self._parts, self._schema)
        if rows.num_rows:
            groups = codes(
                [rows.column(PANE), *self._key_columns(rows)], rows.num_rows, nulls_match=True, by_appearance=True
            )
            rows = take(rows, self._best(rows, groups)[0])
        self._parts = [rows] if rows.num_rows else []
        self._pruned_rows = rows.num_rows
        return rows

    def _best(self, rows: pa.RecordBatch, groups: Ints) -> tuple[Ints, Ints]:
        """Rows that rank among the first k of their group, and their ranks."""
        table = pa.table({"group": groups, "by": rows.column(self._by), "seq": rows.column(SEQ)})
        keys = [("group", "ascending"), ("by", self._order), ("seq", "ascending")]
        order = pc.sort_indices(table, sort_keys=keys).to_numpy()
        ordered = groups[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        ranks = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        best = ranks < self._k
        return order[best], ranks[best] + 1

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        return self._times.settle(batch, behind)

    def on_watermark(self, watermark_us: int) -> list[Output]:
        shape = self._times.shape
        end = self._times.closed_panes(watermark_us)
        next_start = ((end - shape.size) // shape.slide + 1) * shape.slide
        if next_start <= self._next_start:
            return []
        out: list[Output] = []
        rows = self._prune()
        panes = rows.column(PANE).to_numpy() if rows.num_rows else np.empty(0, np.int64)
        for start in self._starts(panes, next_start):
            inside = keep(rows, (panes >= start) & (panes < start + shape.size))
            out.append((MAIN, Data(self._result(inside, start))))
        self._next_start = next_start
        self._drop()
        return out

    def _starts(self, panes: Ints, next_start: int) -> list[int]:
        shape = self._times.shape
        starts: set[int] = set()
        for pane in np.unique(panes).tolist():
            first = max(shape.first_start(pane), self._next_start)
            starts.update(range(first, min(shape.last_start(pane) + 1, next_start), shape.slide))
        return sorted(starts)

    def _result(self, rows: pa.RecordBatch, start: int) -> pa.RecordBatch:
        groups = codes(self._key_columns(rows), rows.num_rows, nulls_match=True, by_appearance=True)
        best, ranks = self._best(rows, groups)
        begin = np.full(len(best), start * self._times.pane + self._times.offset)
        length = self._times.shape.size * self._times.pane
        kind = self._times.time.kind
        arrays = [*take(rows.select(self._names), best).columns, pa.array(ranks)]
        arrays += [to_arrow(begin, kind), to_arrow(begin + length, kind)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._out)

    def _drop(self) -> None:
        """Panes that no open window contains go."""
        self._parts = [keep(part, part.column(PANE).to_numpy() >= self._next_start) for part in self._parts]
        self._parts = [part for part in self._parts if part.num_rows]
        self._pruned_rows = sum(part.num_rows for part in self._parts)

    def _key_columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self._key]

    def held_watermark(self, watermark_us: int) -> int:
        return watermark_us - self._times.allowed_us

    # -- state: pruning the union of base and deltas gives the same candidates --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        if changed:  # a sort of all candidates would take longer than a few rows too many
            new = [keep(part, part.column(SEQ).to_numpy() >= self._clean_seq) for part in self._parts]
            rows = concat([part for part in new if part.num_rows], self._schema)
        else:
            rows = self._prune()
        columns = {f"row_{name}": rows.column(name) for name in rows.schema.names}
        return {"rows": keyed_table(self._key_columns(rows), columns)}, {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        arrays = [rows.column(f"row_{name}") for name in self._schema.names]
        if rows.num_rows:
            self._parts.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._seq = max(self._seq, int(pc.max(rows.column(f"row_{SEQ}")).as_py()) + 1)
            self._prune()

    def clean(self) -> None:
        self._clean_seq = self._seq

    def marks(self) -> dict[str, int]:
        return {"next_start": self._next_start}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._next_start = marks["next_start"]
        self._drop()


def draft(
    flow: Flow,
    key: tuple[str, ...],
    window: TimeWindow,
    allowed_us: int,
    k: int,
    by: str,
    descending: bool,
    place: Place,
) -> Draft:
    time = require_time(flow, "top_k", place)
    require_columns(flow.schema, (*key, by), operator="top_k", place=place)
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise AppError(f"top_k: {k!r} is not a positive number of rows", place=place)
    try:
        times = window_times(flow, window, allowed_us)
    except AppError as error:
        raise AppError(f"top_k: {error.message}", place=place) from error
    if "rank" in flow.schema.names:
        raise AppError('top_k: the stream already has a column "rank"', place=place)
    # The results of windows may be ranked: their own window columns make way for ours.
    kept = [field.with_name(INNER.get(field.name, field.name)) for field in flow.schema]
    out = window_flow(time, [*kept, pa.field("rank", pa.int64()), *window_fields(time)], "top_k", place)
    return Draft(
        "top_k",
        (out, flow),
        lambda: TopK(key, times, k, by, descending, flow, out.schema),
        detail=f"{k} by {by}, {window}",
        stateful=True,
        key=key,
        ports=("", "late"),
    )
