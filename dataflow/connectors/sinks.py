"""Where finished rows go: the console, CSV, JSON lines, Parquet, memory, or nowhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dataflow.batches import Row, to_rows
from dataflow.errors import AppError


class Console:
    """One JSON object a row, with the sink's name in front if there are several."""

    def __init__(self, prefix: str = "", out: TextIO | None = None) -> None:
        self._prefix = prefix
        self._out = out

    def open(self, schema: pa.Schema) -> None:
        pass

    def write(self, batch: pa.RecordBatch) -> None:
        out = self._out or sys.stdout
        out.writelines(f"{self._prefix}{json_line(row)}\n" for row in to_rows(batch))
        out.flush()

    def close(self) -> None:
        pass


class Memory:
    """Rows kept in a list, for tests."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def open(self, schema: pa.Schema) -> None:
        pass

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += to_rows(batch)

    def close(self) -> None:
        pass


class Nowhere:
    """Counts only."""

    def open(self, schema: pa.Schema) -> None:
        pass

    def write(self, batch: pa.RecordBatch) -> None:
        pass

    def close(self) -> None:
        pass


class JsonFile:
    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file: TextIO | None = None

    def open(self, schema: pa.Schema) -> None:
        self._file = _writable(self._path).open("w")

    def write(self, batch: pa.RecordBatch) -> None:
        assert self._file is not None
        self._file.writelines(json_line(row) + "\n" for row in to_rows(batch))

    def close(self) -> None:
        if self._file:
            self._file.close()


class ArrowFile:
    """CSV or Parquet, written by Arrow."""

    def __init__(self, path: str | Path, kind: str) -> None:
        self._path = Path(path)
        self._kind = kind
        self._writer: Any = None

    def open(self, schema: pa.Schema) -> None:
        path = str(_writable(self._path))
        try:
            self._writer = pacsv.CSVWriter(path, schema) if self._kind == "csv" else pq.ParquetWriter(path, schema)
        except pa.ArrowException as error:
            raise AppError(f"{path} cannot hold these columns: {error}") from error

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer:
            self._writer.close()


def _writable(path: Path) -> Path:
    try:
        with path.open("wb"):
            return path
    except OSError as error:
        raise AppError(f"file {path} cannot be written: {error.strerror or error}") from error


def json_line(row: Row) -> str:
    return json.dumps(row, default=str, ensure_ascii=False)
