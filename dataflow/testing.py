"""Run an app on rows in memory and look at its sinks: for tests of apps, and of ourselves.

Deterministic and single-threaded. Times may be given as ints in the unit of their column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from dataflow.app import App
from dataflow.batches import Row, from_rows, to_rows
from dataflow.engine.executor import Executor
from dataflow.messages import Data, End, Message
from dataflow.plan import make_plan

BATCH_ROWS = 1000


def run_batches(app: App, batches: Mapping[str, Sequence[pa.RecordBatch]]) -> dict[str, list[Row]]:
    """Feed each source its batches, one source after the other, then end all."""
    app.validate()
    executor = Executor(make_plan(app.graph))
    out: dict[str, list[Row]] = {name: [] for name in executor.plan.sinks}
    steps: list[tuple[str, Message]] = [(name, Data(batch)) for name, group in batches.items() for batch in group]
    ends: list[tuple[str, Message]] = [(name, End()) for name in executor.plan.sources]
    for name, message in [*steps, *ends]:
        for sink, arrival in executor.feed(name, message):
            if isinstance(arrival, Data):
                out[sink] += to_rows(arrival.batch)
    return out


def run_rows(app: App, rows: Mapping[str, Sequence[Row]], *, batch_rows: int = BATCH_ROWS) -> dict[str, list[Row]]:
    """Feed each source its rows, cut into batches; the rows of every sink."""
    schemas = {node.name: node.draft.outputs[0].schema for node in app.graph.of_kind("source")}
    return run_batches(
        app,
        {
            name: [from_rows(group[at : at + batch_rows], schemas[name]) for at in range(0, len(group), batch_rows)]
            for name, group in rows.items()
        },
    )
