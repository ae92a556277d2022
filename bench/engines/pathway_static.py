"""Pathway on a table that is complete before it starts: its best case, one moment of time for all rows.

One process, no persistence. Timed runs end in its null sink; the check fetches the rows.
"""

from typing import Any

import pandas as pd
import pathway as pw
import pyarrow as pa

from bench.data import SLIDE_US, TOO_HOT, WINDOW_US, sites
from bench.engines.serve import Request, serve


def measure(request: Request) -> Any:
    frames = request.prepare(lambda: {name: _frame(table) for name, table in request.load().items()})
    tables = request.prepare(lambda: {name: pw.debug.table_from_pandas(it) for name, it in frames.items()})
    found = JOBS[request.workload.kind](**tables)
    if request.wants_rows:
        request.begin()
        rows = pw.debug.table_to_pandas(found, include_id=False)
        request.end()
        return pa.Table.from_pandas(rows.rename(columns={"person": "id"}), preserve_index=False)
    pw.io.null.write(found)
    request.begin()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    request.end()
    return None


def _frame(table: Any) -> pd.DataFrame:
    at = table.column("at").cast(pa.int64())
    table = table.set_column(table.schema.get_field_index("at"), "at", at)
    # A column "id" is its own.
    return table.rename_columns(["person" if it == "id" else it for it in table.column_names]).to_pandas()


def pass_through(bids: Any) -> Any:
    return bids


def every_123rd(bids: Any) -> Any:
    return bids.filter(pw.this.auction % 123 == 0).select(pw.this.auction, pw.this.price)


def joined(persons: Any, auctions: Any) -> Any:
    pairs = persons.window_join(
        auctions,
        persons.at,
        auctions.at,
        pw.temporal.tumbling(duration=WINDOW_US),
        persons.person == auctions.seller,
    )
    return pairs.select(
        persons.person, persons.name, auctions.auction, window_start=pw.this._pw_window_start
    )


def averages(readings: Any) -> Any:
    windows = readings.windowby(
        readings.at, window=pw.temporal.tumbling(duration=WINDOW_US), instance=readings.key
    )
    return windows.reduce(
        key=pw.this._pw_instance,
        window_start=pw.this._pw_window_start,
        mean=pw.reducers.avg(pw.this.value),
        highest=pw.reducers.max(pw.this.value),
    )


def site_means(lines: Any) -> Any:
    table = pw.debug.table_from_pandas(sites().to_pandas())
    parts = lines.select(parts=pw.apply_with_type(_parse, tuple[str, float], pw.this.line), at=pw.this.at)
    parsed = parts.select(sensor=pw.this.parts[0], celsius=pw.this.parts[1], at=pw.this.at)
    kept = parsed.filter(pw.this.celsius < TOO_HOT)
    placed = kept.join(table, kept.sensor == table.sensor).select(table.site, kept.celsius, kept.at)
    windows = placed.windowby(
        placed.at, window=pw.temporal.sliding(hop=SLIDE_US, duration=WINDOW_US), instance=placed.site
    )
    return windows.reduce(
        site=pw.this._pw_instance, window_start=pw.this._pw_window_start, mean=pw.reducers.avg(pw.this.celsius)
    )


def _parse(line: str) -> tuple[str, float]:
    sensor, celsius, _ = line.split(",")
    return sensor, float(celsius)


def _split(line: str) -> list[str]:
    return line.split(" ")


def words(lines: Any) -> Any:
    each = lines.select(word=pw.apply_with_type(_split, list[str], pw.this.line), at=pw.this.at).flatten(pw.this.word)
    windows = each.windowby(each.at, window=pw.temporal.tumbling(duration=WINDOW_US), instance=each.word)
    return windows.reduce(
        word=pw.this._pw_instance, window_start=pw.this._pw_window_start, count=pw.reducers.count()
    )


JOBS: dict[str, Any] = {
    "W1": pass_through,
    "W2": every_123rd,
    "W3": joined,
    "W4": averages,
    "W5": site_means,
    "W6": words,
}


if __name__ == "__main__":
    serve(measure)
