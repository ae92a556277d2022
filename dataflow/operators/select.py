"""Keep, order, rename and compute columns; what is not named is dropped.

>>> from dataflow import App, col
>>> from dataflow.testing import run_rows
>>> app = App("doc")
>>> app.source("in", schema={"x": "int64", "y": "int64"}).select("y", double=col("x") * 2).sink("out")
>>> run_rows(app, {"in": [{"x": 1, "y": 5}]})["out"]
[{'y': 5, 'double': 2}]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dataflow.errors import AppError, Place
from dataflow.expressions import Projection, col
from dataflow.graph import Draft, Flow
from dataflow.operators.base import Stateless
from dataflow.schema import require_columns


class Select(Stateless):
    carries_behind = True

    def __init__(self, projection: Projection, schema: pa.Schema) -> None:
        self._projection = projection
        self._schema = schema

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(self._projection.run(batch).values()), schema=self._schema)


def draft(flow: Flow, names: tuple[str, ...], exprs: Mapping[str, Any], place: Place) -> Draft:
    if not names and not exprs:
        raise AppError("select: name at least one column", place=place)
    require_columns(flow.schema, names, operator="select", place=place)
    wanted = {**{name: col(name) for name in names}, **exprs}
    projection = Projection(flow.schema, wanted, operator="select", place=place)
    schema = pa.schema([(name, projection.types[name]) for name in wanted])
    return Draft(
        "select",
        (flow.with_schema(schema),),
        lambda: Select(projection, schema),
        detail=", ".join(wanted),
        fusable=True,
    )
