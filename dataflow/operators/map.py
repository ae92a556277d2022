"""A Python function of each row (a dict) that gives one row.

    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> app.source("in", schema={"x": "int64"}).map(lambda row: {"x": row["x"] ** 2}).sink("out")
    >>> run_rows(app, {"in": [{"x": 3}]})["out"]
    [{'x': 9}]

Slow compared with expressions; `parallelism=n` spreads it over worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dataflow.batches import Row
from dataflow.errors import Place
from dataflow.graph import Draft, Flow
from dataflow.operators.row_function import row_draft
from dataflow.schema import SchemaLike


def draft(flow: Flow, function: Callable[..., Any], schema: SchemaLike | None, parallelism: int, place: Place) -> Draft:
    def expand(row: Row) -> Iterable[Row]:
        made = function(row)
        if not isinstance(made, dict):
            raise TypeError(f"map must give a dict, not {type(made).__name__}")
        return (made,)

    return row_draft("map", flow, function, expand, schema, parallelism, place)
