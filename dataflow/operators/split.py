"""Two streams of one: the rows for which an expression is true, and the rest (false or null).

>>> from dataflow import App, col
>>> from dataflow.testing import run_rows
>>> app = App("doc")
>>> big, small = app.source("in", schema={"x": "int64"}).split(col("x") > 10)
>>> big.sink("big"); small.sink("small")
>>> out = run_rows(app, {"in": [{"x": 1}, {"x": 20}]})
>>> out["big"], out["small"]
([{'x': 20}], [{'x': 1}])
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dataflow.behind import Behind
from dataflow.errors import Place
from dataflow.expressions import Expr, Projection
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, SIDE, Operator, Output
from dataflow.operators.filter import predicate_of


class Split(Operator):
    ports = 2
    carries_behind = True

    def __init__(self, predicate: Projection) -> None:
        self._predicate = predicate

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        return self._parts(batch, None)

    def carry(self, source: int, batch: pa.RecordBatch, behind: Behind) -> list[Output]:
        return self._parts(batch, behind)

    def _parts(self, batch: pa.RecordBatch, behind: Behind | None) -> list[Output]:
        mask = pc.fill_null(self._predicate.run(batch)["split"], False)
        out: list[Output] = []
        for port, kept in ((MAIN, mask), (SIDE, pc.invert(mask))):
            part = batch.filter(kept)
            left = behind.after_filter(kept.to_numpy(zero_copy_only=False)) if behind else None
            if part.num_rows:
                out.append((port, Data(part, left)))
        return out


def draft(flow: Flow, predicate: Expr, place: Place) -> Draft:
    checked = predicate_of(flow, predicate, "split", place)
    return Draft("split", (flow, flow), lambda: Split(checked), detail=repr(predicate), ports=("", "rest"))
