"""Rows made by a function or an iterable of batches or rows: for tests, demos and benches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from dataflow.batches import Row
from dataflow.connectors.protocol import Read
from dataflow.connectors.replaying import continue_after

BATCH_ROWS = 8192


class Generator:
    """Yields whatever the iterable yields: batches, lists of rows, or single rows (which are gathered)."""

    def __init__(self, rows: Iterable[object] | Callable[[], Iterable[object]]) -> None:
        self._rows = rows

    def read_after(self, schema: pa.Schema, units: int) -> Iterator[Read]:
        """Without the first so many rows; an iterator that cannot begin again just goes on."""
        begins_again = callable(self._rows) or iter(self._rows) is not self._rows
        return continue_after(self.read(schema), units if begins_again else 0, what="the generator")

    def read(self, schema: pa.Schema) -> Iterator[Read]:
        gathered: list[Row] = []
        for each in self._rows() if callable(self._rows) else self._rows:
            if isinstance(each, dict):
                gathered.append(each)
                if len(gathered) >= BATCH_ROWS:
                    yield gathered
                    gathered = []
            else:
                if gathered:
                    yield gathered
                    gathered = []
                yield each  # checked by the runner
        if gathered:
            yield gathered
