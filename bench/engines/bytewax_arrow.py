"""Bytewax as a patient user could write it: its items are Arrow batches, and all the work is done by hand in pyarrow.

What its windows, keys and recovery do for rows, nobody does here: W4 keeps one table of partial results a window, and
tells a window when a later one begins. Only for workloads where such a program is short.
"""

from typing import Any

import bytewax.operators as op
import pyarrow as pa
import pyarrow.compute as pc
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from bench.connectors import BATCH_ROWS
from bench.data import WINDOW_US
from bench.engines.bytewax_input import FromList, ToList
from bench.engines.serve import Request, serve

JOBS = ("W1", "W2", "W4")
MERGE_ROWS = 1 << 18
"""Partial results are put together when there are so many."""


def measure(request: Request) -> Any:
    (table,) = request.load().values()
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    kept: list[Any] = []
    flow = Dataflow("bench")
    stream = op.input("in", flow, FromList([*batches, None], request, batch=1))
    job = {"W1": pass_through, "W2": every_123rd, "W4": averages}[request.workload.kind]
    op.output("out", job(stream), ToList(kept))
    run_main(flow)
    request.end()
    return pa.concat_tables([pa.Table.from_batches([it]) if isinstance(it, pa.RecordBatch) else it for it in kept])


def pass_through(stream: Any) -> Any:
    return op.filter("not the end", stream, lambda batch: batch is not None)


def every_123rd(stream: Any) -> Any:
    return op.filter_map("filter", stream, _filtered)


def _filtered(batch: Any) -> Any:
    if batch is None:
        return None
    auction = batch.column("auction")
    rest = pc.subtract(auction, pc.multiply(pc.divide(auction, 123), 123))
    return batch.select(["auction", "price"]).filter(pc.equal(rest, 0))


def averages(stream: Any) -> Any:
    return op.flat_map("windows", stream, Averages().on_batch)


class Averages:
    """Partial sums of the open window; closed when a row of a later one comes, or at the end."""

    def __init__(self) -> None:
        self._start: int | None = None
        self._parts: list[Any] = []
        self._rows = 0

    def on_batch(self, batch: Any) -> list[Any]:
        if batch is None:
            return self._close()
        out: list[Any] = []
        at = batch.column("at").cast(pa.int64()).to_numpy()
        begins = at - at % WINDOW_US
        low = 0
        while low < len(at):  # rows are in order of time: a batch holds one window, or two at a boundary
            high = int(begins.searchsorted(begins[low], side="right"))
            start = int(begins[low])
            if self._start is not None and start != self._start:
                out += self._close()
            self._start = start
            self._add(batch.slice(low, high - low))
            low = high
        return out

    def _add(self, batch: Any) -> None:
        table = pa.Table.from_batches([batch.select(["key", "value"])])
        part = table.group_by("key", use_threads=False).aggregate(
            [("value", "sum"), ("value", "count"), ("value", "max")]
        )
        self._parts.append(part)
        self._rows += part.num_rows
        if self._rows > MERGE_ROWS:
            self._parts = [self._merged()]
            self._rows = 0  # only what is new counts: else a large window would be merged with every batch

    def _merged(self) -> Any:
        together = pa.concat_tables(self._parts).group_by("key", use_threads=False)
        merged = together.aggregate([("value_sum", "sum"), ("value_count", "sum"), ("value_max", "max")])
        return merged.rename_columns(
            {"value_sum_sum": "value_sum", "value_count_sum": "value_count", "value_max_max": "value_max"}
        )

    def _close(self) -> list[Any]:
        if self._start is None:
            return []
        merged = self._merged()
        mean = pc.divide(merged.column("value_sum").cast(pa.float64()), merged.column("value_count"))
        result = pa.table(
            {
                "key": merged.column("key"),
                "window_start": pa.array([self._start] * merged.num_rows),
                "mean": mean,
                "highest": merged.column("value_max"),
            }
        )
        self._parts, self._rows, self._start = [], 0, None
        return [result]


if __name__ == "__main__":
    serve(measure)
