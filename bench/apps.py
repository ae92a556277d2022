"""The workloads as a user of Shoal would write them: apps, with the public API and nothing else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.data import TOO_HOT, sites
from bench.workloads import Workload
from dataflow import App, col, count, sliding, tumbling

BIDS = {"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"}
PERSONS = {"id": "int64", "name": "string", "at": "timestamp[us]"}
AUCTIONS = {"auction": "int64", "seller": "int64", "at": "timestamp[us]"}
READINGS = {"key": "int64", "value": "int64", "at": "timestamp[us]"}
LINES = {"line": "string", "at": "timestamp[us]"}


def app_of(workload: Workload) -> App:
    """The app of a workload; its sink is called "out"."""
    app = App(workload.name.lower())
    jobs = {"W1": pass_through, "W2": every_123rd, "W3": joined, "W4": averages, "W5": site_means, "W6": words}
    jobs[workload.kind](app)
    return app


def pass_through(app: App) -> None:
    app.source("bids", schema=BIDS, event_time="at").sink("out")


def every_123rd(app: App) -> None:
    bids = app.source("bids", schema=BIDS, event_time="at")
    bids.filter(col("auction") % 123 == 0).select("auction", "price").sink("out")


def joined(app: App) -> None:
    persons = app.source("persons", schema=PERSONS, event_time="at")
    auctions = app.source("auctions", schema=AUCTIONS, event_time="at")
    pairs = persons.key_by("id").join(auctions.key_by("seller"), window=tumbling("10s"))
    pairs.select("id", "name", "auction", "window_start").sink("out")


def averages(app: App) -> None:
    readings = app.source("readings", schema=READINGS, event_time="at")
    windows = readings.key_by("key").window(tumbling("10s"))
    windows.aggregate(mean=col("value").mean(), highest=col("value").max()).sink("out")


def site_means(app: App) -> None:
    lines = app.source("lines", schema=LINES, event_time="at")
    readings = lines.map_batches(_parse, schema={"sensor": "string", "celsius": "float64", "at": "timestamp[us]"})
    placed = readings.filter(col("celsius") < TOO_HOT).enrich(sites(), on="sensor")
    windows = placed.key_by("site").window(sliding("10s", every="2s"))
    windows.aggregate(mean=col("celsius").mean()).sink("out")


def words(app: App) -> None:
    lines = app.source("lines", schema=LINES, event_time="at")
    each = lines.map_batches(_split, schema={"word": "string", "at": "timestamp[us]"})
    each.key_by("word").window(tumbling("10s")).aggregate(count=count()).sink("out")


def _parse(batch: pa.RecordBatch) -> dict[str, Any]:
    """sensor,celsius,humidity"""
    parts = pc.split_pattern(batch.column("line"), ",")
    return {
        "sensor": pc.list_element(parts, 0),
        "celsius": pc.list_element(parts, 1).cast(pa.float64()),
        "at": batch.column("at"),
    }


def _split(batch: pa.RecordBatch) -> dict[str, Any]:
    parts = pc.split_pattern(batch.column("line"), " ")
    return {"word": parts.flatten(), "at": batch.column("at").take(pc.list_parent_indices(parts))}
