"""Latency of pathway on W2: rows through a Python subject, its own filter, a subscriber in Python.

It gathers what came since its last commit; commits are asked for every millisecond, the least it takes.
"""

import json
from typing import Any

import pathway as pw

from bench.engines.pace import TICKS, auctions_of, now_us, sleep_until_tick
from bench.latency import TICK_MS, summary


class Row(pw.Schema):
    auction: int
    price: int
    at: int


class Paced(pw.io.python.ConnectorSubject):
    def run(self) -> None:
        ticks = [auctions_of(tick) for tick in range(TICKS)]
        begun_us = now_us()
        for tick, auctions in enumerate(ticks):
            sleep_until_tick(begun_us, tick)
            stamp = now_us()
            for auction in auctions:
                self.next(auction=auction, price=auction, at=stamp)


def main() -> None:
    latencies_ms: list[float] = []

    def arrived(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        latencies_ms.append((now_us() - row["at"]) / 1000)

    bids = pw.io.python.read(Paced(), schema=Row, autocommit_duration_ms=TICK_MS)
    pw.io.subscribe(bids.filter(pw.this.auction % 123 == 0), on_change=arrived)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps(summary(latencies_ms)))


if __name__ == "__main__":
    main()
