"""Neighbouring stateless operators as one: a batch goes through all of them without a queue in between."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dataflow.operators.base import Stateless


class Chain(Stateless):
    def __init__(self, links: Sequence[Stateless]) -> None:
        self._links = tuple(links)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for link in self._links:
            if not batch.num_rows:
                break
            batch = link.apply(batch)
        return batch
