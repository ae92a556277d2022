"""Latency of Shoal on W2: `dataflow.local.run` with threads, as users run it."""

import json
from collections.abc import Iterator

import pyarrow as pa

from bench.engines.pace import ROWS_A_TICK, TICKS, auctions_of, now_us, sleep_until_tick
from bench.latency import summary
from dataflow import App, col
from dataflow.local import run


class Paced:
    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        ticks = [pa.array(auctions_of(tick)) for tick in range(TICKS)]
        begun_us = now_us()
        for tick, auctions in enumerate(ticks):
            sleep_until_tick(begun_us, tick)
            stamp = pa.array([now_us()] * ROWS_A_TICK).cast(pa.timestamp("us"))
            yield pa.RecordBatch.from_arrays([auctions, auctions, stamp], schema=schema)


class Stopwatch:
    def __init__(self) -> None:
        self.latencies_ms: list[float] = []

    def open(self, schema: pa.Schema) -> None:
        pass

    def write(self, batch: pa.RecordBatch) -> None:
        arrived_us = now_us()
        self.latencies_ms += [(arrived_us - it) / 1000 for it in batch.column("at").cast(pa.int64()).to_pylist()]

    def close(self) -> None:
        pass


def main() -> None:
    app = App("latency")
    bids = app.source("bids", schema={"auction": "int64", "price": "int64", "at": "timestamp[us]"}, event_time="at")
    bids.filter(col("auction") % 123 == 0).select("auction", "price", "at").sink("out")
    stopwatch = Stopwatch()
    run(app, {"bids": Paced()}, {"out": stopwatch})
    print(json.dumps(summary(stopwatch.latencies_ms)))


if __name__ == "__main__":
    main()
