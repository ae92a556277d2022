"""Latency of bytewax on W2: rows, its own filter, one worker."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from bench.engines.pace import TICKS, auctions_of, now_us
from bench.latency import TICK_MS, summary

Row = tuple[int, int, int]


class Paced(StatelessSourcePartition[Row]):
    def __init__(self) -> None:
        self._ticks = [auctions_of(tick) for tick in range(TICKS)]
        self._tick = 0
        self._begun = datetime.now(UTC)

    def next_batch(self) -> list[Row]:
        if self._tick >= TICKS:
            raise StopIteration
        stamp = now_us()
        rows = [(auction, auction, stamp) for auction in self._ticks[self._tick]]
        self._tick += 1
        return rows

    def next_awake(self) -> datetime | None:
        return self._begun + timedelta(milliseconds=self._tick * TICK_MS)


class Source(DynamicSource[Row]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> Paced:
        return Paced()


class Stopwatch(StatelessSinkPartition[Row]):
    def __init__(self, latencies_ms: list[float]) -> None:
        self._latencies_ms = latencies_ms

    def write_batch(self, items: list[Row]) -> None:
        arrived_us = now_us()
        self._latencies_ms += [(arrived_us - row[2]) / 1000 for row in items]


class Sink(DynamicSink[Row]):
    def __init__(self, latencies_ms: list[float]) -> None:
        self._latencies_ms = latencies_ms

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Stopwatch:
        return Stopwatch(self._latencies_ms)


def main() -> None:
    latencies_ms: list[float] = []
    flow = Dataflow("latency")
    rows: Any = op.input("in", flow, Source())
    op.output("out", op.filter("123rd", rows, lambda row: row[0] % 123 == 0), Sink(latencies_ms))
    run_main(flow)
    print(json.dumps(summary(latencies_ms)))


if __name__ == "__main__":
    main()
