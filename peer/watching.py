"""Look over the shoulder of a run: count what connectors give and take, and keep the first dead letters.

The engine counts for the closing line; this counts by name, for `--stats` and the progress bar, without the
engine knowing. A file's length in rows is estimated from its first lines: good enough for a bar, and free.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dataflow.connectors.protocol import Letters, SinkConnector, SourceConnector

SAMPLE_BYTES = 1 << 18


class WatchedSource:
    """A source, and how many rows and dead letters came out of it."""

    def __init__(self, source: SourceConnector, rows_expected: float | None) -> None:
        self._source = source
        self.rows_expected = rows_expected
        self.rows = 0
        self.dead_letters = 0

    def bind(self, name: str, event_time: str | None) -> None:
        if hasattr(self._source, "bind"):
            self._source.bind(name, event_time)

    def read(self, schema: pa.Schema) -> Iterator[Any]:
        for each in self._source.read(schema):
            if isinstance(each, Letters):
                self.dead_letters += len(each.letters)
            elif isinstance(each, pa.RecordBatch):
                self.rows += each.num_rows
            yield each


class WatchedSink:
    """A sink, and how many rows it took."""

    def __init__(self, sink: SinkConnector) -> None:
        self._sink = sink
        self.rows = 0

    def open(self, schema: pa.Schema) -> None:
        self._sink.open(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.write(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        self._sink.close()


def file_of(spec: str) -> Path | None:
    """The file behind a connector spec, if it is one.

    >>> str(file_of("file:rooms.csv?speed=10")), file_of("stdin")
    ('rooms.csv', None)
    """
    kind, _, path = spec.partition("?")[0].partition(":")
    return Path(path) if kind == "file" and path else None


def rows_expected(spec: str) -> float | None:
    """About how many rows a source will give; None if nobody can know."""
    path = file_of(spec)
    if path is None or not path.is_file():
        return None
    try:
        if path.suffix.lower() == ".parquet":
            return float(pq.read_metadata(path).num_rows)
        with path.open("rb") as file:
            sample = file.read(SAMPLE_BYTES)
    except (OSError, pa.ArrowException):  # the run itself will say what is wrong with it
        return None
    return path.stat().st_size * sample.count(b"\n") / len(sample) if sample else 0.0


def share_read(sources: list[WatchedSource]) -> float:
    """From 0 to 1. Never quite 1: the estimate may be short, and the run is not over."""
    expected = sum(source.rows_expected or 0.0 for source in sources)
    seen = sum(source.rows + source.dead_letters for source in sources)
    return min(seen / expected, 0.99) if expected else 0.0
