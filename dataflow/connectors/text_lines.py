"""Plain text: each line is one row of the only column."""

from __future__ import annotations

import pyarrow as pa

from dataflow.connectors.line_parsing import Origin, Parsed, numbered_lines
from dataflow.dead_letters import Letter
from dataflow.errors import AppError


class TextLines:
    def __init__(self, schema: pa.Schema, origin: Origin) -> None:
        if len(schema) != 1 or not pa.types.is_string(schema.field(0).type):
            raise AppError(
                f"{origin.file}: text lines need a schema of one string column, not ({', '.join(schema.names)})"
            )
        self._schema = schema
        self._origin = origin

    def parse(self, block: bytes, first_line: int) -> Parsed:
        good: list[str] = []
        letters: list[Letter] = []
        for number, line in numbered_lines(block, first_line):
            try:
                good.append(line.decode())
            except UnicodeDecodeError:
                letters.append(self._origin.letter(number, "not UTF-8", line))
        return pa.RecordBatch.from_arrays([pa.array(good, pa.string())], schema=self._schema), letters
