"""What a Python row function costs against the same as an expression: `python -m bench.row_function`.

Two functions: a small one (a multiplication) and a heavy one (some tens of microseconds a row), each also in two
worker processes. `startup_s` is a run of one row: for workers, two interpreters that import and build the app. Rates
are told with it (`rows_per_s`) and without (`rows_per_s_ready`). CPU-seconds count the worker processes too, so
`parallelism=2` can win in wall time only, and only with two free cores. All forms must give the same rows.
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
    "small": {
        "expression": "vectorised.py",
        "row function": "rows_1.py",
        "row function, parallelism=2": "rows_2.py",
    },
    "heavy": {
        "row function": "heavy_1.py",
        "row function, parallelism=2": "heavy_2.py",
    },
}
HEAVY_ROWS_SHARE = 4
"""The heavy function gets so many times fewer rows: it takes as long all the same."""


def bids(rows: int) -> pa.Table:
    n = np.arange(rows)
    return pa.table({"auction": mix(n, 1) % 10_000, "price": mix(n, 3) % 1_000_000})


def once(file: str, table: pa.Table) -> tuple[float, float, str]:
    """Seconds, CPU-seconds, and a digest of the rows."""
    app = load_app(str(APPS / file), {})
    kept = Keep()
    begun, spent = time.monotonic(), cpu_s()
    run(app, {"bids": FromMemory(table, lambda: None)}, {"out": kept})
    wall_s, used_s = time.monotonic() - begun, cpu_s() - spent
    found = kept.table()
    return wall_s, used_s, digest_of(found, tuple(found.column_names))


def ready(rows: int, seconds: float, startup: float) -> str | None:
    """A rate without the start-up; none if the start-up was all."""
    return rate(rows / (seconds - startup)) if seconds > 1.2 * startup else None


def measure(rows: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for size, forms in FORMS.items():
        table = bids(rows if size == "small" else rows // HEAVY_ROWS_SHARE)
        digests = set()
        for form, file in forms.items():
            once(file, table.slice(0, 1))  # what is imported late is imported now
            startup_s, startup_cpu_s, _ = once(file, table.slice(0, 1))
            wall_s, used_s, digest = once(file, table)
            digests.add(digest)
            found.append(
                {
                    "function": size,
                    "form": form,
                    "startup_s": f"{startup_s:.2f}",
                    "rows_per_s": rate(table.num_rows / wall_s),
                    "rows_per_s_ready": ready(table.num_rows, wall_s, startup_s),
                    "rows_per_cpu_s": rate(table.num_rows / used_s),
                    "rows_per_cpu_s_ready": ready(table.num_rows, used_s, startup_cpu_s),
                }
            )
        assert len(digests) == 1, f"the forms of the {size} function gave different rows"
    return found


@click.command()
@click.option("--rows", type=click.IntRange(1_000), default=1_000_000, show_default=True)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(rows: int, output: str) -> None:
    """Measure Python row functions, the same in two processes, and the small one as an expression."""
    found = measure(rows)
    click.echo(json.dumps(found, indent=2) if output == "json" else columns(found))


if __name__ == "__main__":
    main()
