"""Bytewax as its guide writes it: Python rows, its own operators and windows.

One process, one worker, no recovery. Rows are tuples in memory, with datetimes ready made where it wants them, and
come in batches of 8192. Persons and auctions are one input in order of time: with two inputs one may run ahead
of the other and make its rows late.
"""

from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import pyarrow as pa
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from bench.data import SLIDE_US, START_US, TOO_HOT, WINDOW_US, Streams, sites
from bench.engines.bytewax_clock import RowClock
from bench.engines.bytewax_input import FromList, ToList
from bench.engines.serve import Request, serve

BATCH = 8192
ALIGN_TO = datetime.fromtimestamp(START_US // 1_000_000, UTC)
WINDOW = timedelta(microseconds=WINDOW_US)
SLIDE = timedelta(microseconds=SLIDE_US)
TUMBLING = win.TumblingWindower(length=WINDOW, align_to=ALIGN_TO)
SLIDING = win.SlidingWindower(length=WINDOW, offset=SLIDE, align_to=ALIGN_TO)


def measure(request: Request) -> Any:
    rows, build, result = JOBS[request.workload.kind]
    items = request.prepare(lambda: rows(request.load()))
    kept: list[Any] = []
    flow = Dataflow("bench")
    stream = op.input("in", flow, FromList(items, request, batch=BATCH))
    op.output("out", build(stream), ToList(kept))
    run_main(flow)
    request.end()
    return pa.Table.from_pylist([dict(zip(request.workload.columns, it, strict=True)) for it in result(kept)])


def bids(streams: Streams) -> list[Any]:
    return list(zip(*[it.to_pylist() for it in _with_plain_time(streams["bids"]).columns], strict=True))


def _with_plain_time(table: Any) -> Any:
    return table.set_column(table.schema.get_field_index("at"), "at", table.column("at").cast(pa.int64()))


def timed(table: Any) -> list[Any]:
    """Rows as tuples with a datetime of UTC, as its windows want it."""
    at = table.column("at").cast(pa.timestamp("us", tz="UTC"))
    table = table.set_column(table.schema.get_field_index("at"), "at", at)
    return list(zip(*[it.to_pylist() for it in table.columns], strict=True))


def pass_through(stream: Any) -> Any:
    return stream


def every_123rd(stream: Any) -> Any:
    return op.map("project", op.filter("123rd", stream, lambda row: row[0] % 123 == 0), lambda row: (row[0], row[2]))


def in_order(streams: Streams) -> list[Any]:
    persons = [(True, *row) for row in timed(streams["persons"])]
    auctions = [(False, *row) for row in timed(streams["auctions"])]
    return sorted(persons + auctions, key=itemgetter(3))


def joined(stream: Any) -> Any:
    sides = op.branch("kinds", stream, itemgetter(0))
    persons = op.key_on("by id", sides.trues, lambda row: str(row[1]))
    auctions = op.key_on("by seller", sides.falses, lambda row: str(row[2]))
    clock = RowClock(lambda it: it[1][3])  # a clock that is not bytewax's own sees (side, row)
    pairs = win.join_window(
        "join", clock, TUMBLING, persons, auctions, insert_mode="product", emit_mode="final"
    )
    return op.filter("both", pairs.down, lambda it: None not in it[1][1])


def pairs(kept: list[Any]) -> list[Any]:
    return [(one[1], one[2], other[1], start_us(window)) for _, (window, (one, other)) in kept]


def readings(streams: Streams) -> list[Any]:
    return [(str(key), (value, at)) for key, value, at in timed(streams["readings"])]


def averages(stream: Any) -> Any:
    return win.fold_window(
        "fold", stream, RowClock(itemgetter(1)), TUMBLING, lambda: (0, 0, 0), _fold, _merge, ordered=False
    ).down


def _fold(state: tuple[int, int, int], row: tuple[int, datetime]) -> tuple[int, int, int]:
    value = row[0]
    return state[0] + value, state[1] + 1, max(value, state[2])


def _merge(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], max(one[2], other[2])


def means(kept: list[Any]) -> list[Any]:
    return [(int(key), start_us(window), total / n, most) for key, (window, (total, n, most)) in kept]


def lines(streams: Streams) -> list[Any]:
    return timed(streams["lines"])


SITE_OF = dict(zip(*sites().to_pydict().values(), strict=True))


def site_means(stream: Any) -> Any:
    parsed = op.map("parse", stream, _parse)
    kept = op.filter("filter", parsed, lambda row: row[1] < TOO_HOT)
    placed = op.map("annotate", kept, lambda row: (SITE_OF[row[0]], (row[1], row[2])))
    return win.fold_window(
        "fold", placed, RowClock(itemgetter(1)), SLIDING, lambda: (0.0, 0, 0), _fold, _merge, ordered=False
    ).down


def _parse(row: tuple[str, datetime]) -> tuple[str, float, datetime]:
    sensor, celsius, _ = row[0].split(",")
    return sensor, float(celsius), row[1]


def sliding_means(kept: list[Any]) -> list[Any]:
    return [(site, start_us(window, SLIDE_US), total / n) for site, (window, (total, n, _)) in kept]


def words(stream: Any) -> Any:
    each = op.flat_map("split", stream, lambda row: [(word, row[1]) for word in row[0].split()])
    return win.count_window("count", each, RowClock(itemgetter(1)), TUMBLING, itemgetter(0)).down


def counts(kept: list[Any]) -> list[Any]:
    return [(word, start_us(window), n) for word, (window, n) in kept]


def start_us(window: int, every_us: int = WINDOW_US) -> int:
    """Bytewax numbers its windows."""
    return START_US + window * every_us


def as_they_are(kept: list[Any]) -> list[Any]:
    return kept


JOBS: dict[str, tuple[Any, Any, Any]] = {
    "W1": (bids, pass_through, as_they_are),
    "W2": (bids, every_123rd, as_they_are),
    "W3": (in_order, joined, pairs),
    "W4": (readings, averages, means),
    "W5": (lines, site_means, sliding_means),
    "W6": (lines, words, counts),
}


if __name__ == "__main__":
    serve(measure)
