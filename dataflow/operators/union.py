"""Rows of several streams with equal columns, as one stream, in the order they arrive.

>>> from dataflow import App
>>> from dataflow.testing import run_rows
>>> app = App("doc")
>>> north, south = (app.source(name, schema={"x": "int64"}) for name in ("north", "south"))
>>> north.union(south).sink("out")
>>> run_rows(app, {"north": [{"x": 1}], "south": [{"x": 2}]})["out"]
[{'x': 1}, {'x': 2}]
"""

from __future__ import annotations

import pyarrow as pa

from dataflow.behind import Behind
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, Operator, Output
from dataflow.schema import schema_text


class Union(Operator):
    carries_behind = True

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        return [(MAIN, Data(batch))]

    def carry(self, source: int, batch: pa.RecordBatch, behind: Behind) -> list[Output]:
        return [(MAIN, Data(batch, behind))]


def draft(flows: tuple[Flow, ...], place: Place) -> Draft:
    first = flows[0]
    for other in flows[1:]:
        if not other.schema.equals(first.schema):
            raise AppError(
                f"union: the streams differ: ({schema_text(first.schema)}) and ({schema_text(other.schema)})",
                place=place,
            )
    same_time = all(flow.time == first.time for flow in flows)
    return Draft("union", (Flow(first.schema, first.time if same_time else None),), Union)
