"""Files replayed as sources: CSV, JSON lines, Parquet, plain text; flat out, at recorded speed, or scaled."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dataflow.batches import whole
from dataflow.connectors.csv_lines import CsvLines
from dataflow.connectors.line_parsing import Origin, Parser
from dataflow.connectors.lines import LineBlocks, make_parser
from dataflow.connectors.pacing import Pacer
from dataflow.connectors.protocol import Letters, Read
from dataflow.connectors.replaying import continue_after
from dataflow.errors import AppError, did_you_mean

BLOCK_BYTES = 1 << 22  # a few tens of thousands of rows: large for Arrow, small for a device
PARQUET_BATCH_ROWS = 1 << 16
KINDS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
}


class FileSource:
    """`speed=None` reads flat out, 1.0 at recorded speed, 10.0 ten times as fast; pacing follows `event_time`."""

    def __init__(
        self,
        path: str | Path,
        *,
        kind: str | None = None,
        speed: float | None = None,
        event_time: str | None = None,
        name: str = "",
    ) -> None:
        self._path = Path(path)
        self._kind = kind or KINDS.get(self._path.suffix.lower(), "")
        if not self._kind:
            raise AppError(f"{path}: cannot tell the format from the name; add ?format=csv (or jsonl, parquet, text)")
        if speed is not None and speed <= 0:
            raise AppError(f"{path}: speed {speed} is not positive")
        self._speed = speed
        self._event_time = event_time
        self._origin = Origin(name or self._path.stem, str(path))

    def bind(self, name: str, event_time: str | None) -> None:
        """The runner says which source this file plays and what its event time is."""
        self._origin = Origin(name, str(self._path))
        self._event_time = self._event_time or event_time

    def read(self, schema: pa.Schema) -> Iterator[Read]:
        return self.read_after(schema, 0)

    def read_after(self, schema: pa.Schema, units: int) -> Iterator[Read]:
        """Without the first so many rows and letters; a recorded speed begins with what is left."""
        reads = continue_after(self._read_all(schema), units, what=f"file {self._path}")
        if self._speed is None:
            yield from reads
            return
        if self._event_time is None:
            raise AppError(f"{self._path}: a speed needs a source with event_time")
        pacer = Pacer(self._event_time, schema.field(self._event_time).type, self._speed)
        for each in reads:
            if not isinstance(each, pa.RecordBatch):
                yield each
                continue
            for wait_s, part in pacer.parts(each, time.monotonic()):
                time.sleep(max(0.0, wait_s - time.monotonic()))
                yield part

    def _read_all(self, schema: pa.Schema) -> Iterator[Read]:
        try:
            yield from self._parquet(schema) if self._kind == "parquet" else self._lines(schema)
        except FileNotFoundError as error:
            raise AppError(f"file {self._path} does not exist") from error
        except OSError as error:
            raise AppError(f"file {self._path} cannot be read: {error.strerror or error}") from error

    def _lines(self, schema: pa.Schema) -> Iterator[Read]:
        with self._path.open("rb") as file:
            line = 1
            parser: Parser
            if self._kind == "csv":
                header = file.readline()
                parser = CsvLines(schema, self._origin, self._header(header))
                line = 2
            else:
                parser = make_parser(self._kind, schema, self._origin)
            blocks = LineBlocks()
            while True:
                data = file.read(BLOCK_BYTES)
                block = blocks.push(data) if data else blocks.finish()
                batch, letters = parser.parse(block, line)
                line += block.count(b"\n")
                if letters:
                    yield Letters(letters)
                if batch.num_rows:
                    yield batch
                if not data:
                    return

    def _header(self, line: bytes) -> list[str]:
        try:
            names = next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")]), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise AppError(f"{self._path}: the header is not CSV text: {error}") from error
        if not names:
            raise AppError(f"{self._path} is empty; a CSV file begins with a line of column names")
        return [name.strip() for name in names]

    def _parquet(self, schema: pa.Schema) -> Iterator[Read]:
        try:
            file = pq.ParquetFile(self._path)
        except pa.ArrowException as error:
            raise AppError(f"{self._path} is not a Parquet file: {error}") from error
        for name in schema.names:
            if name not in file.schema_arrow.names:
                raise AppError(f'{self._path} has no column "{name}"; {did_you_mean(name, file.schema_arrow.names)}')
        for batch in file.iter_batches(batch_size=PARQUET_BATCH_ROWS, columns=schema.names, use_threads=False):
            try:
                arrays = [whole(batch.column(field.name)).cast(field.type) for field in schema]
            except pa.ArrowException as error:
                raise AppError(f"{self._path} does not have the declared types: {error}") from error
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
