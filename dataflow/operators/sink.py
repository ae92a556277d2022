"""Where a stream ends: rows are handed to a connector under the sink's name.

>>> from dataflow import App
>>> from dataflow.testing import run_rows
>>> app = App("doc")
>>> rows = app.source("in", schema={"x": "int64"})
>>> rows.sink("all")
>>> rows.sink("again")
>>> run_rows(app, {"in": [{"x": 1}]})
{'all': [{'x': 1}], 'again': [{'x': 1}]}
"""

from __future__ import annotations

from dataflow.graph import Draft, Flow
from dataflow.operators.base import Operator


def draft(flow: Flow) -> Draft:
    return Draft("sink", (), Operator)
