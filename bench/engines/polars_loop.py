"""Polars over all rows at once: no stream, no watermark, no window that could close early.

Not a rival but a yardstick: what good columnar kernels need when nothing has to be kept for later.
"""

from typing import Any

import polars as pl

from bench.data import SLIDE_US, TOO_HOT, WINDOW_US, sites
from bench.engines.serve import Request, serve


def measure(request: Request) -> Any:
    streams = request.prepare(lambda: {name: pl.from_arrow(it) for name, it in request.load().items()})
    request.begin()
    found = QUERIES[request.workload.kind](**streams).collect()
    request.end()
    return found.to_arrow()


def _begin(size_us: int) -> Any:
    at = pl.col("at").to_physical()
    return (at - at % size_us).alias("window_start")


def pass_through(bids: Any) -> Any:
    return bids.lazy()


def every_123rd(bids: Any) -> Any:
    return bids.lazy().filter(pl.col("auction") % 123 == 0).select("auction", "price")


def joined(persons: Any, auctions: Any) -> Any:
    left = persons.lazy().select("id", "name", _begin(WINDOW_US))
    right = auctions.lazy().select("auction", "seller", _begin(WINDOW_US))
    return left.join(right, left_on=["id", "window_start"], right_on=["seller", "window_start"])


def averages(readings: Any) -> Any:
    groups = readings.lazy().group_by("key", _begin(WINDOW_US))
    return groups.agg(mean=pl.col("value").mean(), highest=pl.col("value").max())


def site_means(lines: Any) -> Any:
    parts = pl.col("line").str.splitn(",", 3)
    parsed = lines.lazy().select(
        parts.struct.field("field_0").alias("sensor"),
        parts.struct.field("field_1").cast(pl.Float64).alias("celsius"),
        _begin(SLIDE_US).alias("pane"),
    )
    placed = parsed.filter(pl.col("celsius") < TOO_HOT).join(pl.from_arrow(sites()).lazy(), on="sensor", how="left")
    panes = placed.group_by("site", "pane").agg(total=pl.col("celsius").sum(), rows=pl.len())
    windows = panes.with_columns(
        window_start=pl.concat_list([pl.col("pane") - back for back in range(0, WINDOW_US, SLIDE_US)])
    ).explode("window_start")
    return windows.group_by("site", "window_start").agg(mean=pl.col("total").sum() / pl.col("rows").sum())


def words(lines: Any) -> Any:
    each = lines.lazy().select(pl.col("line").str.split(" ").alias("word"), _begin(WINDOW_US)).explode("word")
    return each.group_by("word", "window_start").agg(count=pl.len())


QUERIES: dict[str, Any] = {
    "W1": pass_through,
    "W2": every_123rd,
    "W3": joined,
    "W4": averages,
    "W5": site_means,
    "W6": words,
}


if __name__ == "__main__":
    serve(measure)
