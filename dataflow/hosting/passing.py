"""What runs at a sink: nothing but the merging of marks from all the copies that write it."""

from __future__ import annotations

import pyarrow as pa

from dataflow.behind import Behind
from dataflow.messages import Data
from dataflow.operators.base import MAIN, Operator, Output


class Passing(Operator):
    carries_behind = True

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        return [(MAIN, Data(batch))]

    def carry(self, source: int, batch: pa.RecordBatch, behind: Behind) -> list[Output]:
        return [(MAIN, Data(batch, behind))]
