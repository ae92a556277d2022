"""Compare Shoal with what a user would pick instead: `python -m bench --against all --repeat 3`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from bench.aims import aims
from bench.figures import Figure, ratio
from bench.harness import Harness
from bench.latency import latencies
from bench.registry import ENGINES, OURS, Engine
from bench.report import table
from bench.workloads import ALL, QUICK, USUAL, Workload
from peer.output import columns

SEED = 1
QUICK_EVENTS = 1_000_000
EVENTS_MIN = 1_000
HOW = """\
events_per_s: from the first row in to the last row out. events_per_cpu_s: the same stretch, by the CPU time of the
engine's process and all processes below it. spread: CPU time of the dearest run by the cheapest. shoal_is: events
per CPU-second, shoal's by this engine's. startup_s: from the start of the process to the first row in, without loading
the data. peak_rss_mib: with the data, which every engine but Flink and Spark holds in memory."""


@click.command()
@click.option("--against", default="all", show_default=True, help="Engines with commas between them, all, or none.")
@click.option("--workloads", default=None, help=f"With commas between them; {','.join(USUAL)} if not given.")
@click.option("--rows", type=click.IntRange(EVENTS_MIN), default=None, help="Events, if not each workload's own.")
@click.option("--repeat", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs of each engine.")
@click.option("--quick", is_flag=True, help=f"{','.join(QUICK)} with {QUICK_EVENTS:,} events, once, without latency.")
@click.option("--latency/--no-latency", default=True, help="Also measure latency at 50,000 events a second.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    against: str, workloads: str | None, rows: int | None, repeat: int, quick: bool, latency: bool, output: str
) -> None:
    """Run the same jobs on Shoal and on other engines, check their results, and compare what they cost."""
    say = partial(click.echo, err=True)
    engines = chosen_engines(against)
    wanted = chosen_workloads(workloads, QUICK if quick else USUAL)
    events, runs = (rows or QUICK_EVENTS, 1) if quick else (rows, repeat)
    figures: list[Figure] = []
    delays: list[dict[str, Any]] = []
    try:
        with Harness(engines, seed=SEED, say=say) as harness:
            for workload in wanted:
                figures += harness.measure(workload, events=events, repeat=runs)
            if latency and not quick:
                delays = latencies(engines, harness.pythons, say=say)
    except KeyboardInterrupt:
        say("Interrupted. What was measured so far:")
        click.echo(shown(figures, delays, output))
        raise SystemExit(130) from None
    click.echo(shown(figures, delays, output))
    if any(it.engine == OURS and it.note for it in figures):
        raise SystemExit(1)


def chosen_engines(against: str) -> list[Engine]:
    if against == "none":
        return [ENGINES[OURS]]
    names = [it for it in ENGINES if it != OURS] if against == "all" else [it.strip() for it in against.split(",")]
    for name in names:
        if name not in ENGINES:
            raise click.BadParameter(f'no engine "{name}"; there are {", ".join(ENGINES)}', param_hint="--against")
    return [ENGINES[OURS], *(ENGINES[name] for name in dict.fromkeys(names) if name != OURS)]


def chosen_workloads(given: str | None, usual: Sequence[str]) -> list[Workload]:
    names = list(usual) if given is None else [it.strip() for it in given.split(",")]
    for name in names:
        if name not in ALL:
            raise click.BadParameter(f'no workload "{name}"; there are {", ".join(ALL)}', param_hint="--workloads")
    return [ALL[name] for name in dict.fromkeys(names)]


def shown(figures: Sequence[Figure], delays: Sequence[dict[str, Any]], output: str) -> str:
    if output == "json":
        rows = [asdict(it) | {"shoal_is": ratio(figures, it.workload, it.engine)} for it in figures]
        return json.dumps({"figures": rows, "latency": list(delays), "aims": aims(figures)}, indent=2)
    parts = [table(figures), HOW]
    if delays:
        parts.append("Latency of W2 at 50,000 events a second, from the source to the sink:\n" + columns(delays))
    parts.append(columns(aims(figures)))
    titles = "\n".join(f"{it.name}: {it.title}" for it in ALL.values() if any(f.workload == it.name for f in figures))
    return "\n\n".join([titles, *parts])


if __name__ == "__main__":
    main()
