"""A sink ten times slower than it was, at full input: does memory stay flat, and does every row arrive?

Three peers in a row pass rows on as fast as they can. Then the same again, but for a minute the sink sleeps so long
over each batch that a tenth of the rate is left; after that it is fast again. The source never pauses by itself:
whatever holds it back is credit. Resident memory of every peer is read five times a second; rows are counted and
the first column is summed at both ends.
"""

from __future__ import annotations

import json
import math
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import click
import pyarrow.compute as pc

from bench.data import folder_of, load
from bench.environments import home
from bench.row_of_three import Row, memory_kib, row_of_three
from bench.workloads import ALL, MILLION
from peer.output import columns

ROWS = 2 * MILLION
WARM_UP = 8
"""Times that the table is passed on before anything is judged: pools of memory have found their size by then."""
TIMES_SLOWER = 10
AFTERWARDS_S = 3.0
GROWTH_MIB_MAX = 64.0
"""What counts as flat: windows of both edges, the rows that the sink keeps for readers, and what pools round up."""
SAMPLE_S = 0.2


@click.command()
@click.option("--seconds", type=click.FloatRange(1.0), default=60.0, show_default=True, help="How long it is slow.")
@click.option("--quick", is_flag=True, help="Five seconds.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(seconds: float, quick: bool, output: str) -> None:
    """Slow a sink down and watch the memory of every peer."""
    say = partial(click.echo, err=True)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, row_of_three(Path(folder), events=ROWS) as row:
        report = measure(row, 5.0 if quick else seconds, say)
    if output == "json":
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo(columns(report["peers"]) + "\n\n" + columns(report["runs"]) + "\n\n" + columns(report["aims"]))
    if not all(it["met"] for it in report["aims"]):
        raise SystemExit(1)


def measure(row: Row, seconds: float, say: Any) -> dict[str, Any]:
    say("full speed")
    for _ in range(2):  # the second finds threads and pools as they will stay
        full = Sampled(row, repeat=WARM_UP)
    rate = full.rows / full.wall_s
    slow_rows = seconds * rate / TIMES_SLOWER
    repeat = math.ceil((slow_rows + AFTERWARDS_S * rate) / ROWS)
    say(f"{rate:,.0f} rows/s; now a tenth of it for {seconds:g} s")
    slow = Sampled(row, repeat=repeat, slow_for_s=seconds, slow_s_per_row=TIMES_SLOWER / rate)
    table = load(folder_of(home(), ALL["W1"], ROWS, seed=1))["bids"]
    sent = {"rows": ROWS * repeat, "sum": int(pc.sum(table.column(0)).as_py()) * repeat}
    peers = [
        {
            "peer": name,
            "rss_mib_full_speed_max": round(full.most_mib[name], 1),
            "rss_mib_slow_max": round(slow.most_mib[name], 1),
            "growth_mib": round(slow.most_mib[name] - full.most_mib[name], 1),
        }
        for name in full.most_mib
    ]
    growth = max(slow.most_mib[name] - most for name, most in full.most_mib.items())
    lost = sent["rows"] - slow.rows
    is_whole = lost == 0 and sent["sum"] == slow.sum
    return {
        "peers": peers,
        "runs": [full.facts("full speed"), slow.facts(f"slow for {seconds:g} s, then full speed")],
        "aims": [
            {
                "aim": f"no peer grows by more than {GROWTH_MIB_MAX:g} MiB",
                "found": f"{growth:.1f} MiB",
                "met": growth <= GROWTH_MIB_MAX,
            },
            {
                "aim": "every row arrives, once",
                "found": f"{slow.rows:,} of {sent['rows']:,} rows, sum {'equal' if is_whole else 'differs'}",
                "met": is_whole,
            },
        ],
    }


class Sampled:
    """One run, with the highest resident memory of each peer while it lasted."""

    def __init__(self, row: Row, *, repeat: int, **orders: float) -> None:
        self.most_mib = {it.name: 0.0 for it in row.members}
        pids = {it.name: it.process.pid for it in row.members}
        over = threading.Event()

        def sample() -> None:
            while not over.wait(SAMPLE_S):
                for name, pid in pids.items():
                    self.most_mib[name] = max(self.most_mib[name], memory_kib(pid, "VmRSS") / 1024)

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            run = row.run("flood", orders={"sums": True, **orders}, repeat=repeat)
        finally:
            over.set()
            sampler.join()
        self.wall_s = run.wall_s
        self.rows: int = run.told["rows"]
        self.sum: int = run.told["sum"]

    def facts(self, name: str) -> dict[str, Any]:
        rate = round(self.rows / self.wall_s)
        return {"run": name, "rows": self.rows, "seconds": round(self.wall_s, 1), "rows_per_s": rate}


if __name__ == "__main__":
    main()
