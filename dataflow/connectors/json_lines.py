"""JSON lines: one object a line; fields that the schema does not name are ignored, missing ones are null.

The first line must have every declared field: a file of another schema is an error, not a column of nulls.
"""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.json as pajson

from dataflow.batches import concat
from dataflow.connectors.line_parsing import Origin, Parsed, numbered_lines, shaped
from dataflow.dead_letters import Letter
from dataflow.errors import AppError, did_you_mean


class JsonLines:
    def __init__(self, schema: pa.Schema, origin: Origin) -> None:
        self._schema = schema
        self._origin = origin
        self._written: pa.Schema | None = None

    def parse(self, block: bytes, first_line: int) -> Parsed:
        if not block.strip():
            return concat([], self._schema), []
        if self._written is None:
            self._written = self._written_schema(numbered_lines(block, first_line)[0][1])
        try:
            table = pajson.read_json(
                io.BytesIO(block),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pajson.ParseOptions(
                    explicit_schema=self._written,
                    unexpected_field_behavior="ignore",
                    newlines_in_values=False,
                ),
            )
            return shaped(table, self._schema), []
        except pa.ArrowException:
            return self._line_by_line(block, first_line)

    def _written_schema(self, first: bytes) -> pa.Schema:
        try:
            row = json.loads(first)
        except ValueError:
            return self._schema
        if isinstance(row, dict):
            for name in self._schema.names:
                if name not in row:
                    raise AppError(f'{self._origin.file} has no field "{name}"; {did_you_mean(name, row)}')
        numbers = {name for name, value in row.items() if isinstance(value, int)} if isinstance(row, dict) else set()
        fields = [
            pa.field(field.name, pa.int64()) if pa.types.is_timestamp(field.type) and field.name in numbers else field
            for field in self._schema
        ]
        return pa.schema(fields)

    def _line_by_line(self, block: bytes, first_line: int) -> Parsed:
        good: list[bytes] = []
        letters: list[Letter] = []
        for number, line in numbered_lines(block, first_line):
            reason = self._fault(line)
            if reason is None:
                good.append(line)
            else:
                letters.append(self._origin.letter(number, reason, line))
        if not good:
            return concat([], self._schema), letters
        batch, more = self.parse(b"\n".join(good), first_line)
        return batch, letters + more

    def _fault(self, line: bytes) -> str | None:
        try:
            if not isinstance(json.loads(line), dict):
                return "not a JSON object"
            pajson.read_json(
                io.BytesIO(line),
                parse_options=pajson.ParseOptions(explicit_schema=self._written, unexpected_field_behavior="ignore"),
            )
        except ValueError as error:  # Arrow's errors are ValueErrors too
            return " ".join(str(error).split())
        return None
