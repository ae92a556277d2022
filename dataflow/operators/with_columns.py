"""Add columns, or replace those of the same name.

>>> from dataflow import App, col
>>> from dataflow.testing import run_rows
>>> app = App("doc")
>>> app.source("in", schema={"c": "float64"}).with_columns(f=col("c") * 1.8 + 32).sink("out")
>>> run_rows(app, {"in": [{"c": 100.0}]})["out"]
[{'c': 100.0, 'f': 212.0}]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dataflow.errors import AppError, Place
from dataflow.expressions import Projection
from dataflow.graph import Draft, Flow
from dataflow.operators.base import Stateless


class WithColumns(Stateless):
    carries_behind = True

    def __init__(self, projection: Projection, schema: pa.Schema) -> None:
        self._projection = projection
        self._schema = schema

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made = self._projection.run(batch)
        arrays = [made[name] if name in made else batch.column(name) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def draft(flow: Flow, exprs: Mapping[str, Any], place: Place) -> Draft:
    if not exprs:
        raise AppError("with_columns: name at least one column", place=place)
    projection = Projection(flow.schema, exprs, operator="with_columns", place=place)
    types = {field.name: field.type for field in flow.schema} | projection.types
    schema = pa.schema(list(types.items()))
    return Draft(
        "with_columns",
        (flow.with_schema(schema),),
        lambda: WithColumns(projection, schema),
        detail=", ".join(exprs),
        fusable=True,
    )
