"""Which instance runs next when there are more of them than cores: the one with the longest queue, or each in turn?

One app with thirteen operators and twelve sinks in one share, run as a peer runs it (`ShareRunner`, as many threads as
cores), with nothing between the two runs but `hosting/choice.py`. The operators are uneven: each reads all rows, and
the later ones do more with them. First flat out, for throughput; then at a part of that rate, for latency from
the source to each sink. Interleaved, so that a noisy second hits both.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import pyarrow as pa
import trio

from bench.apps import BIDS
from bench.connectors import FromMemory
from bench.data import folder_of, load
from bench.environments import home
from bench.report import rate as shown_rate
from bench.share_runner import ShareRunner
from bench.workloads import ALL, MILLION
from dataflow import App, col
from dataflow.connectors.protocol import SourceConnector
from dataflow.hosting.assignment import InstanceId, Place, assigned, sink_instance
from dataflow.hosting.choice import Choice, MostQueued, RoundRobin
from dataflow.hosting.share import Share
from dataflow.messages import Data, Message
from dataflow.plan import Plan, make_plan
from overlay.ids import Key, PeerId
from peer.output import columns

BRANCHES = 12
BATCH_ROWS = 8192
TICK_MS = 10
LOAD_SHARE = 0.5
"""Of the slower one's throughput: queues build up now and then, and drain again."""
ME = PeerId(Key(1))
CHOICES: Mapping[str, Callable[[], Choice]] = {"most queued": MostQueued, "round robin": RoundRobin}


class Ticking:
    """So many rows every tick, stamped as they are handed over."""

    def __init__(self, table: pa.Table, rows_per_s: float, seconds: float) -> None:
        self._rows = max(1, int(rows_per_s * TICK_MS / 1000))
        (self._batch,) = table.slice(0, max(2 * self._rows, 1 << 16)).combine_chunks().to_batches()
        self._ticks = int(seconds * 1000 / TICK_MS)

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        begun = time.monotonic()
        for tick in range(self._ticks):
            time.sleep(max(0.0, begun + tick * TICK_MS / 1000 - time.monotonic()))
            part = self._batch.slice(tick * self._rows % (self._batch.num_rows - self._rows + 1), self._rows)
            stamp = pa.array(np.full(part.num_rows, time.monotonic_ns() // 1000)).cast(schema.field("at").type)
            yield part.set_column(schema.get_field_index("at"), schema.field("at"), stamp)


class Stopwatch:
    def __init__(self) -> None:
        self.latencies_ms: list[Any] = []
        self.rows = 0

    async def take(self, message: Message) -> None:
        if isinstance(message, Data):
            self.rows += message.batch.num_rows
            arrived_us = time.monotonic_ns() // 1000
            self.latencies_ms.append((arrived_us - message.batch.column("at").cast(pa.int64()).to_numpy()) / 1000)


def uneven() -> App:
    app = App("uneven")
    bids = app.source("bids", schema=BIDS)
    for number in range(BRANCHES):
        work = col("price") * 2
        for step in range(number):
            work = work * 3 + col("bidder") // (step + 2)
        some = bids.filter(col("auction") % (number + 2) == 0)
        some.with_columns(work=work).select("auction", "work", "at").sink(f"out{number:02}")
    return app


def run_once(plan: Plan, choice: Choice, source: SourceConnector) -> dict[str, Any]:
    instances = [InstanceId(stage.id, 0) for stage in plan.stages] + [sink_instance(plan, name) for name in plan.sinks]
    assignment = assigned("ab" * 32, 1, [Place(it, ME, 1) for it in instances])
    sinks = {name: Stopwatch() for name in plan.sinks}

    async def nobody(*_: Any) -> None:
        raise AssertionError("one peer has nobody to send to")

    async def run() -> None:
        runner = ShareRunner(
            Share(plan, assignment, ME, choice=choice),
            send=nobody,
            sources={("bids", 0): source},
            sinks=sinks,
            limiter=trio.CapacityLimiter(max(2, os.cpu_count() or 1)),
            on_refused=lambda _: None,
        )
        runner.begin()
        await runner.run()
        assert runner.failure is None, runner.failure

    begun, spent = time.monotonic(), time.process_time()
    trio.run(run)
    wall_s, cpu_s = time.monotonic() - begun, time.process_time() - spent
    steady = np.concatenate([part for it in sinks.values() for part in it.latencies_ms[len(it.latencies_ms) // 5 :]])
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "rows_out": sum(it.rows for it in sinks.values()),
        "p50_ms": float(np.percentile(steady, 50)),
        "p99_ms": float(np.percentile(steady, 99)),
    }


@click.command()
@click.option("--rows", type=click.IntRange(100_000), default=4 * MILLION, show_default=True)
@click.option("--repeat", type=click.IntRange(1, 100), default=5, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.5), default=4.0, show_default=True, help="Of each run for latency.")
@click.option("--quick", is_flag=True, help="A million rows, twice, one second.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(rows: int, repeat: int, seconds: float, quick: bool, output: str) -> None:
    """Compare congestion-first with round-robin."""
    say = partial(click.echo, err=True)
    if quick:
        rows, repeat, seconds = MILLION, 2, 1.0
    plan = make_plan(uneven().graph)
    table = load(Path(folder_of(home(), ALL["W1"], rows, seed=1)))["bids"]
    flat: dict[str, list[dict[str, Any]]] = {name: [] for name in CHOICES}
    paced: dict[str, list[dict[str, Any]]] = {name: [] for name in CHOICES}
    for number in range(repeat):
        say(f"flat out, {number + 1} of {repeat}")
        for name, choice in CHOICES.items():
            source = FromMemory(table, lambda: None, batch_rows=BATCH_ROWS)
            flat[name].append(run_once(plan, choice(), source))
    pace = LOAD_SHARE * rows / max(median(it["wall_s"] for it in runs) for runs in flat.values())
    for number in range(repeat):
        say(f"{pace:,.0f} rows/s, {number + 1} of {repeat}")
        for name, choice in CHOICES.items():
            paced[name].append(run_once(plan, choice(), Ticking(table, pace, seconds)))
    assert len({it["rows_out"] for runs in flat.values() for it in runs}) == 1, "rows were lost"
    lines = [line(name, rows, flat[name], paced[name], pace) for name in CHOICES]
    click.echo(json.dumps(lines, indent=2) if output == "json" else columns([shown(it) for it in lines]))


def line(
    name: str, rows: int, flat: list[dict[str, Any]], paced: list[dict[str, Any]], pace: float
) -> dict[str, Any]:
    return {
        "choice": name,
        "rows_per_s": rows / median(it["wall_s"] for it in flat),
        "rows_per_cpu_s": rows / median(it["cpu_s"] for it in flat),
        "paced_rows_per_s": pace,
        "paced_p50_ms": median(it["p50_ms"] for it in paced),
        "paced_p99_ms": median(it["p99_ms"] for it in paced),
        "paced_cores": median(it["cpu_s"] / it["wall_s"] for it in paced),
    }


def shown(it: dict[str, Any]) -> dict[str, Any]:
    rates = {name: shown_rate(it[name]) for name in ("rows_per_s", "rows_per_cpu_s", "paced_rows_per_s")}
    times = {name: f"{it[name]:.2f}" for name in ("paced_p50_ms", "paced_p99_ms", "paced_cores")}
    return {"choice": it["choice"], **rates, **times}


if __name__ == "__main__":
    main()
