"""Rows of sinks on the console: columns for people, a JSON object a row for programs.

Rows come batch by batch and nobody knows the widest value beforehand, so columns only ever grow. If several
sinks share the console, every row says whose it is. Sinks are fed by different threads: one lock keeps lines whole.

Rejected: waiting for the end to align everything; a stream may have none.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dataflow.connectors.sinks import json_line

GAP = "  "
TEXT_WIDTH_MIN = 8  # most names fit, so columns rarely have to grow after the first row


class Screen:
    """Standard output, shared by the sinks that print."""

    def __init__(self, *, form: str, shared: bool) -> None:
        self._form = form
        self._shared = shared
        self._lock = threading.Lock()
        self._speaking: ScreenSink | None = None

    def sink(self, name: str) -> ScreenSink:
        return ScreenSink(self, name)

    def show(self, sink: ScreenSink, rows: Sequence[dict[str, Any]]) -> None:
        with self._lock:
            if self._form == "json":
                lines = [json_line({"sink": sink.name, "row": row} if self._shared else row) for row in rows]
            else:
                prefix = sink.name + GAP if self._shared else ""
                with_header = self._speaking is not sink
                lines = [prefix + line for line in sink.lines(rows, with_header=with_header)]
            self._speaking = sink
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()


class ScreenSink:
    """A sink that prints; remembers how wide its columns are."""

    def __init__(self, screen: Screen, name: str) -> None:
        self.name = name
        self._screen = screen
        self._names: list[str] = []
        self._numeric: list[bool] = []
        self._widths: list[int] = []

    def open(self, schema: pa.Schema) -> None:
        self._names = list(schema.names)
        self._numeric = [pa.types.is_integer(it.type) or pa.types.is_floating(it.type) for it in schema]
        self._widths = [
            max(len(name), 0 if numeric else TEXT_WIDTH_MIN)
            for name, numeric in zip(self._names, self._numeric, strict=True)
        ]

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._screen.show(self, python_rows(batch))

    def close(self) -> None:
        pass

    def lines(self, rows: Sequence[dict[str, Any]], *, with_header: bool) -> list[str]:
        cells = [[cell(row[name]) for name in self._names] for row in rows]
        columns = zip(*cells, strict=True)
        self._widths = [max(width, *map(len, column)) for width, column in zip(self._widths, columns, strict=True)]
        header = [[name.upper() for name in self._names]] if with_header else []
        return [self._aligned(line) for line in header + cells]

    def _aligned(self, line: list[str]) -> str:
        padded = (
            text.rjust(width) if numeric else text.ljust(width)
            for text, width, numeric in zip(line, self._widths, self._numeric, strict=True)
        )
        return GAP.join(padded).rstrip()


def python_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as Python values; times that Python cannot hold (nanoseconds, the year 30000) as text."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (ValueError, OverflowError):
        arrays = [column.cast(pa.string()) if pa.types.is_temporal(column.type) else column for column in batch.columns]
        rows = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names).to_pylist()
    return rows


def cell(value: Any) -> str:
    r"""A value on one line, with nothing in it that a terminal would obey.

    >>> cell(0.1 + 0.2), cell(None), cell("two\nlines"), cell({"a": [1]})
    ('0.3', '-', 'two\\nlines', '{"a": [1]}')
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return str(float(f"{value:.10g}"))
        case list() | dict():
            value = json.dumps(value, default=str, ensure_ascii=False)
    text = str(value)
    return text if text.isprintable() else "".join(it if it.isprintable() else repr(it)[1:-1] for it in text)
