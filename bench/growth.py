"""How cost grows with keys, with overlapping windows and with open sessions: `python -m bench.growth`.

What is asked is not a rate but a shape: ten times the keys may cost more (caches are small), but ten times the
overlaps must not cost ten times as much. Results cost too: the last column counts them. Runs in one process, with
`dataflow.local.run`; CPU-seconds of that process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import pyarrow as pa

from bench.arithmetic import mix
from bench.connectors import FromMemory, Keep
from bench.data import START_US
from bench.report import rate
from dataflow import App, col, count, session, sliding, tumbling
from dataflow.local import run
from dataflow.windows import Window
from peer.output import columns

SCHEMA = {"key": "int64", "value": "int64", "at": "timestamp[us]"}
STEP_US = 10
KEYS = (1_000, 10_000, 100_000, 1_000_000)
OVERLAPS = (5, 60, 600)
OPEN_SESSIONS = (1_000, 100_000)
SLIDE_S = 1


def readings(rows: int, keys: int, step_us: int = STEP_US) -> pa.Table:
    n = np.arange(rows)
    at = pa.array(START_US + n * step_us).cast(pa.timestamp("us"))
    return pa.table({"key": mix(n, 4) % keys, "value": mix(n, 5) % 1_000_000, "at": at})


def cost(table: pa.Table, window: Window) -> dict[str, Any]:
    """What one aggregation costs on these rows."""
    app = App("growth")
    rows = app.source("readings", schema=SCHEMA, event_time="at")
    rows.key_by("key").window(window).aggregate(
        readings=count(), mean=col("value").mean(), highest=col("value").max()
    ).sink("out")
    kept, begun = Keep(), time.process_time()
    run(app, {"readings": FromMemory(table, lambda: None)}, {"out": kept})
    cpu_s = time.process_time() - begun
    out = kept.table().num_rows
    return {
        "rows_in": table.num_rows,
        "rows_out": out,
        "cpu_s": round(cpu_s, 3),
        "rows_in_per_cpu_s": rate(table.num_rows / cpu_s),
        "rows_in_and_out_per_cpu_s": rate((table.num_rows + out) / cpu_s),
    }


def measure(rows: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for keys in KEYS:
        say(f"tumbling windows, {keys:,} keys")
        found.append({"what": f"tumbling 10s, {keys:,} keys", **cost(readings(rows, keys), tumbling("10s"))})
    for overlaps in OVERLAPS:
        say(f"sliding windows, {overlaps} overlaps")
        # Twenty seconds of rows at one second a slide; the more overlaps, the more results, which are told apart.
        window = sliding(f"{overlaps * SLIDE_S}s", every=f"{SLIDE_S}s")
        table = readings(rows, 1_000, step_us=20_000_000 // rows or 1)
        found.append({"what": f"sliding, {overlaps} overlaps, 1,000 keys", **cost(table, window)})
    for keys in OPEN_SESSIONS:
        say(f"sessions, {keys:,} open")
        # The gap is longer than the whole input: every key's session stays open until the end.
        found.append({"what": f"sessions, {keys:,} open", **cost(readings(rows, keys), session("1h"))})
    return found


@click.command()
@click.option("--rows", type=click.IntRange(1_000), default=2_000_000, show_default=True, help="Rows of each run.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(rows: int, output: str) -> None:
    """Measure how the cost of keyed windows grows."""
    found = measure(rows, lambda told: click.echo(told, err=True))
    click.echo(json.dumps(found, indent=2) if output == "json" else columns(found))


if __name__ == "__main__":
    main()
