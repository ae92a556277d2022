"""Keep the rows for which an expression is true (not false, not null).

>>> from dataflow import App, col
>>> from dataflow.testing import run_rows
>>> app = App("doc")
>>> app.source("in", schema={"x": "int64"}).filter(col("x") > 1).sink("out")
>>> run_rows(app, {"in": [{"x": 1}, {"x": 2}, {"x": None}]})["out"]
[{'x': 2}]
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dataflow.behind import Behind
from dataflow.errors import AppError, Place
from dataflow.expressions import Expr, Projection
from dataflow.graph import Draft, Flow
from dataflow.operators.base import Stateless


def predicate_of(flow: Flow, predicate: Expr, operator: str, place: Place) -> Projection:
    """A checked expression that is true or false for every row."""
    if not isinstance(predicate, Expr):
        raise AppError(f'{operator}: {predicate!r} is not an expression such as col("x") > 1', place=place)
    projection = Projection(flow.schema, {operator: predicate}, operator=operator, place=place)
    if not pa.types.is_boolean(projection.types[operator]):
        raise AppError(f"{operator}: {predicate!r} is {projection.types[operator]}, not true or false", place=place)
    return projection


class Filter(Stateless):
    carries_behind = True

    def __init__(self, predicate: Projection) -> None:
        self._predicate = predicate

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(self._predicate.run(batch)["filter"])

    def apply_behind(self, batch: pa.RecordBatch, behind: Behind) -> tuple[pa.RecordBatch, Behind | None]:
        kept = pc.fill_null(self._predicate.run(batch)["filter"], False)
        return batch.filter(kept), behind.after_filter(kept.to_numpy(zero_copy_only=False))


def draft(flow: Flow, predicate: Expr, place: Place) -> Draft:
    checked = predicate_of(flow, predicate, "filter", place)
    return Draft("filter", (flow,), lambda: Filter(checked), detail=repr(predicate), fusable=True)
