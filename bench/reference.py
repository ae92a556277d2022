"""What every engine must give, computed a second time with plain Arrow: no engine of ours or theirs in sight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.data import SLIDE_US, TOO_HOT, WINDOW_US, Streams, sites
from bench.workloads import Workload


def expected(workload: Workload, streams: Streams) -> Any:
    """The result table of a workload on these streams."""
    match workload.kind:
        case "W1":
            return streams["bids"]
        case "W2":
            return _every_123rd(streams["bids"])
        case "W3":
            return _joined(streams["persons"], streams["auctions"])
        case "W4":
            return _averages(streams["readings"])
        case "W5":
            return _site_means(streams["lines"])
        case "W6":
            return _words(streams["lines"])
    raise AssertionError(workload.kind)


def _every_123rd(bids: Any) -> Any:
    kept = bids.column("auction").to_numpy() % 123 == 0
    return bids.filter(pa.array(kept)).select(["auction", "price"])


def _joined(persons: Any, auctions: Any) -> Any:
    left = persons.append_column("window_start", _begin(persons, WINDOW_US))
    right = auctions.append_column("window_start", _begin(auctions, WINDOW_US)).rename_columns(
        {"seller": "id", "at": "sold_at"}
    )
    return left.join(right, keys=["id", "window_start"], join_type="inner")


def _averages(readings: Any) -> Any:
    table = readings.append_column("window_start", _begin(readings, WINDOW_US))
    found = table.group_by(["key", "window_start"]).aggregate([("value", "mean"), ("value", "max")])
    return found.rename_columns({"value_mean": "mean", "value_max": "highest"})


def _site_means(lines: Any) -> Any:
    """Each reading is written down once for each of the windows that hold it."""
    parts = [text.split(",") for text in lines.column("line").to_pylist()]
    site_of = dict(zip(*sites().to_pydict().values(), strict=True))
    celsius = np.array([float(it[1]) for it in parts])
    site = np.array([site_of[it[0]] for it in parts])
    pane = _begin(lines, SLIDE_US).to_numpy()
    kept = celsius < TOO_HOT
    copies = [
        pa.table({"site": site[kept], "window_start": pane[kept] - back, "celsius": celsius[kept]})
        for back in range(0, WINDOW_US, SLIDE_US)
    ]
    found = pa.concat_tables(copies).group_by(["site", "window_start"]).aggregate([("celsius", "mean")])
    return found.rename_columns({"celsius_mean": "mean"})


def _words(lines: Any) -> Any:
    words = pc.split_pattern(lines.column("line").combine_chunks(), " ")
    begins = _begin(lines, WINDOW_US).take(pc.list_parent_indices(words))
    table = pa.table({"word": words.flatten(), "window_start": begins})
    found = table.group_by(["word", "window_start"]).aggregate([([], "count_all")])
    return found.rename_columns({"count_all": "count"})


def _begin(table: Any, size_us: int) -> Any:
    at = table.column("at").cast(pa.int64()).to_numpy()
    return pa.array(at - at % size_us)
