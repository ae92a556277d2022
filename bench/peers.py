"""Three peers in a row over TLS, beside bytewax and Flink with an exchange of theirs: `python -m bench.peers`.

Every row of Shoal crosses two wires (W1), is encrypted, summed, and acknowledged by credit. The others get less: one
wire, for half of their rows or for all, in plain TCP; what each does stands at the top of its module. Runs are
interleaved, rows are compared with the reference before a time counts, and CPU is that of all processes of an engine.

Latency is measured on the same row at 50,000 rows a second in batches of 50: each row is stamped when its source hands
it over, and the sink reads the clock. Both ends are on this machine, so the clock is one.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click

from bench.figures import Figure, ratio
from bench.harness import Harness, Say
from bench.process import EngineFailed
from bench.registry import OURS, Engine
from bench.report import rate, table
from bench.row_of_three import Row, busy_s, row_of_three
from bench.workloads import ALL, MILLION, Workload
from peer.output import columns

KINDS = ("W1", "W2", "W4")
SHOAL = Engine(OURS, "", None, kinds=KINDS, throws_rows_away=True)
OTHERS = {
    it.name: it
    for it in (
        Engine("bytewax", "bench.engines.bytewax_rows_exchange", "bytewax", kinds=KINDS),
        Engine("bytewax-arrow", "bench.engines.bytewax_arrow_exchange", "bytewax", kinds=KINDS),
        Engine(
            "flink",
            "bench.engines.flink_exchange",
            "flink",
            kinds=KINDS,
            stays=True,
            throws_rows_away=True,
            needs_java=True,
        ),
    )
}
RIVALS = ("bytewax", "flink")
"""bytewax-arrow is a yardstick: all of its work is pyarrow by hand, and it stops nobody who sends too fast."""
SLOW = {"W1": {"bytewax": MILLION}, "W2": {"bytewax": MILLION}, "W4": {"bytewax": 200_000}}
FLINK_EVENTS = 4 * MILLION
ROWS_PER_S = 50_000
TICK_MS = 1
W2_AIM = 5 * MILLION
P50_MS_AIM, P99_MS_AIM = 5.0, 25.0


class Between(Harness):
    """The harness of the bench, but Shoal is a row of peers."""

    def __init__(self, row: Row, engines: Sequence[Engine], *, seed: int, say: Say) -> None:
        super().__init__(engines, seed=seed, say=say)
        self._row = row

    def _ask(self, engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
        if engine.name != OURS:
            return super()._ask(engine, request)
        keeps = request["wants_rows"]
        columns = ALL[request["workload"]].columns
        run = self._row.run(request["workload"].lower(), orders={"keeps": keeps, "columns": columns} if keeps else {})
        answer = {
            "events": request["events"],
            "wall_s": run.wall_s,
            "cpu_s": sum(run.cpu_s.values()),
            "peak_rss_mib": self._row.peak_rss_mib(),
        }
        if keeps and run.told["digest"] != request["digest"]:
            raise EngineFailed(f"wrong rows, {run.told['rows']:,} of them")
        return answer


@click.command()
@click.option("--against", default=",".join(OTHERS), show_default=True, help="With commas between them, or none.")
@click.option("--rows", type=click.IntRange(100_000), default=8 * MILLION, show_default=True)
@click.option("--repeat", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--quick", is_flag=True, help="A million rows, once, and two seconds of latency.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(against: str, rows: int, repeat: int, quick: bool, output: str) -> None:
    """Measure three real peers in a row, and other engines beside them."""
    say = partial(click.echo, err=True)
    names = [] if against == "none" else [it.strip() for it in against.split(",")]
    for name in names:
        if name not in OTHERS:
            raise click.BadParameter(f'no engine "{name}"; there are {", ".join(OTHERS)}', param_hint="--against")
    events, runs, seconds = (MILLION, 1, 2.0) if quick else (rows, repeat, 6.0)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, row_of_three(Path(folder), events=events) as row:
        with Between(row, [SHOAL, *(OTHERS[it] for it in names)], seed=1, say=say) as harness:
            figures = [
                figure
                for name in KINDS
                for figure in harness.measure(_workload(name, events), events=events, repeat=runs)
            ]
        delays = [latency(row, seconds, say) for _ in range(max(2, runs))]
    click.echo(shown(figures, delays, output))
    if any(it.engine == OURS and it.note for it in figures):
        raise SystemExit(1)


def _workload(name: str, events: int) -> Workload:
    return replace(ALL[name], events_of={**SLOW[name], "flink": min(events, FLINK_EVENTS)})


def latency(row: Row, seconds: float, say: Say) -> dict[str, Any]:
    say(f"latency at {ROWS_PER_S:,} rows/s for {seconds:g} s")
    busy, begun = busy_s(), time.monotonic()
    run = row.run(
        "w1", orders={"is_stopwatch": True}, rows_per_s=ROWS_PER_S, tick_ms=TICK_MS, seconds=seconds
    )
    spent = sum(run.cpu_s.values())
    others = (busy_s() - busy - spent) / (time.monotonic() - begun)
    told = {name: run.told[name] for name in ("p50_ms", "p90_ms", "p99_ms")}
    return told | {"rows": run.told["rows"], "cores": round(spent / run.wall_s, 2), "cores_of_others": round(others, 2)}


def aims(figures: Sequence[Figure], delays: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for it in figures:
        if it.engine == OURS and it.workload == "W2" and it.events_per_cpu_s:
            met = it.events_per_cpu_s >= W2_AIM
            found.append({"aim": "W2: at least 5M rows per CPU-second", "found": rate(it.events_per_cpu_s), "met": met})
        better = ratio(figures, it.workload, it.engine)
        if it.engine in RIVALS and better is not None:
            found.append({"aim": f"{it.workload}: ahead of {it.engine}", "found": f"{better:.1f}x", "met": better > 1})
    for name, aim in (("p50_ms", P50_MS_AIM), ("p99_ms", P99_MS_AIM)):
        middle = median(it[name] for it in delays)
        found.append({"aim": f"latency {name[:3]} under {aim:g} ms", "found": f"{middle:.1f} ms", "met": middle < aim})
    return found


def shown(figures: Sequence[Figure], delays: Sequence[dict[str, Any]], output: str) -> str:
    met = aims(figures, delays)
    if output == "json":
        rows = [asdict(it) | {"shoal_is": ratio(figures, it.workload, it.engine)} for it in figures]
        return json.dumps({"figures": rows, "latency": list(delays), "aims": met}, indent=2)
    title = f"Latency over three peers at {ROWS_PER_S:,} rows/s, one line a run; cores_of_others: what else ran here"
    return "\n\n".join([table(figures), f"{title}:\n{columns(delays)}", columns(met)])


if __name__ == "__main__":
    main()
