"""The app of the chaos: small, but with everything that can go wrong in it.

    a, b  ->  union  ->  sink "all"                      every row, once
                     ->  key, tumbling window  ->  sink "sums"
                                               ->  sink "late"

Rows are numbered by their source. A device that was away finds its windows closed: its rows are late, which is right.
So what counts in "sums" and what lies in "late" are together what one machine counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from dataflow import App, col, count, tumbling
from dataflow.batches import Row, from_rows
from dataflow.plan import Plan, make_plan
from dataflow.testing import run_rows

SOURCES = ("a", "b")
KEYS = 5
SCHEMA = {"source": "string", "n": "int64", "k": "string", "x": "int64", "pad": "string", "at": "timestamp[ms]"}
PAD = "." * 120
"""So that state is larger than what a record holds inline, and has to go to holders."""


def build() -> App:
    app = App("chaos")
    a, b = (app.source(name, schema=SCHEMA, event_time="at") for name in SOURCES)
    rows = a.union(b)
    rows.sink("all")
    made = rows.key_by("k").window(tumbling("1s")).aggregate(n=count(), total=col("x").sum())
    made.sink("sums")
    made.late().sink("late")
    return app


def plan_of(app: App) -> Plan:
    app.validate()
    return make_plan(app.graph)


def row(source: str, n: int, x: int) -> Row:
    """Row `n` of a source. `x` is drawn when it is read: a row that was lost and read again is another one."""
    return {"source": source, "n": n, "k": f"key-{n % KEYS}", "x": x, "pad": PAD, "at": n * 100}


def batch_of(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    return from_rows(rows, schema)


def alone(inputs: Mapping[str, Mapping[int, int]]) -> dict[str, list[Row]]:
    """What one machine makes of the same rows."""
    rows = {source: [row(source, n, x) for n, x in sorted(found.items())] for source, found in inputs.items()}
    merged = sorted((it for group in rows.values() for it in group), key=lambda it: it["at"])
    # One source after the other would make the second one's rows late: in the order of their times, as they were read.
    return run_rows(_merged(), {"both": merged})


def _merged() -> App:
    app = App("chaos-alone")
    rows = app.source("both", schema=SCHEMA, event_time="at")
    rows.sink("all")
    rows.key_by("k").window(tumbling("1s")).aggregate(n=count(), total=col("x").sum()).sink("sums")
    return app


Window = tuple[str, object]


def counted(sums: Iterable[Row], late: Iterable[Row]) -> Counter[tuple[str, str]]:
    """Rows and sums by key, from windows and from what came too late for them."""
    found: Counter[tuple[str, str]] = Counter()
    for it in sums:
        found[it["k"], "n"] += it["n"]
        found[it["k"], "total"] += it["total"]
    for it in late:
        found[it["k"], "n"] += 1
        found[it["k"], "total"] += it["x"]
    return found
