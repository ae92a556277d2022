"""Neighbouring stateless operators as one: a batch goes through all of them without a queue in between."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dataflow.behind import Behind
from dataflow.operators.base import Stateless


class Chain(Stateless):
    def __init__(self, links: Sequence[Stateless]) -> None:
        self._links = tuple(links)
        self.carries_behind = all(link.carries_behind for link in links)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for link in self._links:
            if not batch.num_rows:
                break
            batch = link.apply(batch)
        return batch

    def apply_behind(self, batch: pa.RecordBatch, behind: Behind) -> tuple[pa.RecordBatch, Behind | None]:
        left: Behind | None = behind
        for link in self._links:
            if not batch.num_rows:
                break
            batch, left = link.apply_behind(batch, left) if left else (link.apply(batch), None)
        return batch, left
