"""Where a stream ends: rows are handed to a connector under the sink's name."""

from __future__ import annotations

from dataflow.graph import Draft, Flow
from dataflow.operators.base import Operator


def draft(flow: Flow) -> Draft:
    return Draft("sink", (), Operator)
