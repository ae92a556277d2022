"""Connectors of the bench: rows that are in memory already, and a sink that keeps what comes out.

Ten lines each, as the tutorial promises. `on_first_row` marks the moment when rows begin to flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

BATCH_ROWS = 1 << 16


class FromMemory:
    """A source of one table, in batches of a size that a file reader would give."""

    def __init__(self, table: pa.Table, on_first_row: Callable[[], None], *, batch_rows: int = BATCH_ROWS) -> None:
        self._batches = table.to_batches(max_chunksize=batch_rows)
        self._on_first_row = on_first_row

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        self._on_first_row()
        yield from self._batches


class Keep:
    """A sink that holds on to its batches: they are counted and digested after the run."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._schema: pa.Schema | None = None

    def open(self, schema: pa.Schema) -> None:
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        pass

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, schema=self._schema)
