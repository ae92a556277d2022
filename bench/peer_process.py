"""`peer` with two connectors more: rows that are in memory before the clock starts, and a sink that counts.

    peer run --source bids=bench:PATH.arrow?gate=PORT --sink out=bench:?gate=PORT

Everything else of the process is the peer that users run. When to begin, at which rate, how slow to be and what to tell
in the end is said by the gate (gate.py), so that one fleet serves many runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.connectors import BATCH_ROWS
from bench.digest import digest_of
from bench.gate import ask_gate, tell_gate
from dataflow.connectors.specs import MORE_SINKS, MORE_SOURCES
from peer.cli import main

STAMP = "at"
_LOADED: dict[str, pa.Table] = {}


class Rows:
    """A table of an Arrow file, flat out or so many rows a second, each stamped with the time of hand-over."""

    def __init__(self, path: str, port: int) -> None:
        self._path = path
        self._port = port

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._path not in _LOADED:
            with pa.OSFile(self._path, "rb") as file:
                _LOADED[self._path] = pa.ipc.open_file(file).read_all().combine_chunks()
        table = _LOADED[self._path]
        batches = table.to_batches(max_chunksize=BATCH_ROWS)
        how = ask_gate(self._port, who="source", what="ready")
        rate = how.get("rows_per_s")
        if rate is not None:
            yield from self._paced(table, rate, how["tick_ms"], how["seconds"])
            return
        for _ in range(how.get("repeat", 1)):
            yield from batches

    def _paced(self, table: pa.Table, rate: int, tick_ms: int, seconds: float) -> Iterator[pa.RecordBatch]:
        rows = max(1, rate * tick_ms // 1000)
        (batch,) = table.slice(0, min(table.num_rows, BATCH_ROWS)).to_batches()
        at = batch.schema.get_field_index(STAMP)
        begun = time.monotonic()
        for tick in range(int(seconds * 1000 / tick_ms)):
            time.sleep(max(0.0, begun + tick * tick_ms / 1000 - time.monotonic()))
            part = batch.slice(tick * rows % (batch.num_rows - rows), rows)
            stamp = np.full(rows, time.monotonic_ns() // 1000)
            yield part.set_column(at, part.schema.field(at), pa.array(stamp).cast(part.schema.field(at).type))


class Counting:
    """Counts and drops. By order of the gate it also sums, keeps, is slow, or reads the clock."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._rows = 0
        self._sum = 0
        self._kept: list[pa.RecordBatch] = []
        self._latencies_us: list[Any] = []
        self._orders: dict[str, Any] = {}
        self._slow_until = 0.0

    def open(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._orders = ask_gate(self._port, who="sink", what="open")
        self._slow_until = time.monotonic() + self._orders.get("slow_for_s", 0.0)

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        if self._orders.get("is_stopwatch"):
            arrived_us = time.monotonic_ns() // 1000
            self._latencies_us.append(arrived_us - batch.column(STAMP).cast(pa.int64()).to_numpy())
        if self._orders.get("keeps"):
            self._kept.append(batch)
        if self._orders.get("sums"):
            self._sum += int(pc.sum(batch.column(0)).as_py() or 0)
        if time.monotonic() < self._slow_until:
            time.sleep(batch.num_rows * self._orders["slow_s_per_row"])

    def close(self) -> None:
        told: dict[str, Any] = {"ended_at": time.monotonic(), "rows": self._rows, "sum": self._sum}
        tell_gate(self._port, who="sink", what="end", **told, **self._more())

    def _more(self) -> dict[str, Any]:
        if self._orders.get("is_stopwatch") and self._latencies_us:
            steady = np.concatenate(self._latencies_us[len(self._latencies_us) // 5 :]) / 1000
            return {f"p{it}_ms": round(float(np.percentile(steady, it)), 3) for it in (50, 90, 99)}
        if self._orders.get("keeps"):
            rows = pa.Table.from_batches(self._kept, schema=self._schema)
            return {"digest": digest_of(rows, self._orders["columns"])}
        return {}


def _source(path: str, options: dict[str, str]) -> Rows:
    assert Path(path).is_file(), path
    return Rows(path, int(options["gate"]))


def _sink(_: str, options: dict[str, str]) -> Counting:
    return Counting(int(options["gate"]))


if __name__ == "__main__":
    MORE_SOURCES["bench"] = _source
    MORE_SINKS["bench"] = _sink
    main()
