"""What a Python row function costs against the same as an expression: `python -m bench.row_function`.

CPU-seconds count the worker processes too, so `parallelism=2` can win in wall time only, and only with two free cores.
All three must give the same rows.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from bench.arithmetic import mix
from bench.connectors import FromMemory, Keep
from bench.digest import digest_of
from bench.engines.meter import cpu_s
from bench.report import rate
from dataflow.loading import load_app
from dataflow.local import run
from peer.output import columns

APPS = Path(__file__).with_name("row_apps")
FORMS = {
    "expression": "vectorised.py",
    "row function": "rows_1.py",
    "row function, parallelism=2": "rows_2.py",
}


def bids(rows: int) -> pa.Table:
    n = np.arange(rows)
    return pa.table({"auction": mix(n, 1) % 10_000, "price": mix(n, 3) % 1_000_000})


def measure(rows: int) -> list[dict[str, Any]]:
    table = bids(rows)
    found: list[dict[str, Any]] = []
    digests = set()
    for form, file in FORMS.items():
        app = load_app(str(APPS / file), {})
        kept = Keep()
        begun, spent = time.monotonic(), cpu_s()
        run(app, {"bids": FromMemory(table, lambda: None)}, {"out": kept})
        wall_s, used_s = time.monotonic() - begun, cpu_s() - spent
        digests.add(digest_of(kept.table(), ("auction", "euros")))
        found.append({"form": form, "rows_per_s": rate(rows / wall_s), "rows_per_cpu_s": rate(rows / used_s)})
    assert len(digests) == 1, "the three forms gave different rows"
    return found


@click.command()
@click.option("--rows", type=click.IntRange(1_000), default=1_000_000, show_default=True)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(rows: int, output: str) -> None:
    """Measure a Python row function, the same in two processes, and the same as an expression."""
    found = measure(rows)
    click.echo(json.dumps(found, indent=2) if output == "json" else columns(found))


if __name__ == "__main__":
    main()
