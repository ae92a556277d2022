"""A Python function of each row that gives any number of rows.

>>> from dataflow import App
>>> from dataflow.testing import run_rows
>>> app = App("doc")
>>> lines = app.source("in", schema={"line": "string"})
>>> words = lines.flat_map(lambda row: [{"word": w} for w in row["line"].split()], schema={"word": "string"})
>>> words.sink("out")
>>> run_rows(app, {"in": [{"line": "to be"}, {"line": ""}]})["out"]
[{'word': 'to'}, {'word': 'be'}]
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
        made = list(function(row) or ())
        if not all(isinstance(each, dict) for each in made):
            raise TypeError("flat_map must give dicts")
        return made

    return row_draft("flat_map", flow, function, expand, schema, parallelism, place)
