"""Comma-separated lines. A value may not contain a line break."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pacsv

from dataflow.batches import concat, whole
from dataflow.connectors.line_parsing import Origin, Parsed, numbered_lines, shaped
from dataflow.dead_letters import Letter
from dataflow.errors import AppError, did_you_mean

_NUMBER = re.compile(r"-?\d{5,}$")


class CsvLines:
    """`names` are the columns of the file in its own order."""

    def __init__(self, schema: pa.Schema, origin: Origin, names: Sequence[str]) -> None:
        for name in schema.names:
            if name not in names:
                raise AppError(f'{origin.file} has no column "{name}"; {did_you_mean(name, names)}')
        self._schema = schema
        self._origin = origin
        self._names = list(names)
        self._types: dict[str, pa.DataType] | None = None

    def parse(self, block: bytes, first_line: int) -> Parsed:
        if not block.strip():
            return concat([], self._schema), []
        if self._types is None:
            self._types = self._written_types(block)
        try:
            table = pacsv.read_csv(
                io.BytesIO(block),
                read_options=pacsv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(block) + 1),
                convert_options=pacsv.ConvertOptions(column_types=self._types, include_columns=self._schema.names),
            )
            return shaped(table, self._schema), []
        except (pa.ArrowException, UnicodeDecodeError):
            return self._line_by_line(block, first_line)

    def _written_types(self, block: bytes) -> dict[str, pa.DataType]:
        types = {field.name: field.type for field in self._schema}
        first = block.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
        cells = next(csv.reader([first]), [])
        for name, cell in zip(self._names, cells, strict=False):
            if name in types and pa.types.is_timestamp(types[name]) and _NUMBER.match(cell.strip()):
                types[name] = pa.int64()
        return types

    def _line_by_line(self, block: bytes, first_line: int) -> Parsed:
        assert self._types is not None
        rows: list[tuple[int, bytes, list[str]]] = []
        letters: list[Letter] = []
        for number, line in numbered_lines(block, first_line):
            try:
                cells = next(csv.reader([line.decode()], strict=True))
            except (UnicodeDecodeError, csv.Error) as error:
                letters.append(self._origin.letter(number, f"unreadable: {error}", line))
                continue
            if len(cells) != len(self._names):
                reason = f"expected {len(self._names)} values, found {len(cells)}"
                letters.append(self._origin.letter(number, reason, line))
            else:
                rows.append((number, line, cells))
        bad: dict[int, str] = {}
        for name in self._schema.names:
            at = self._names.index(name)
            self._misfits([cells[at] for _, _, cells in rows], name, 0, bad)
        letters += [self._origin.letter(rows[at][0], reason, rows[at][1]) for at, reason in bad.items()]
        good = [cells for at, (_, _, cells) in enumerate(rows) if at not in bad]
        arrays = [
            self._convert([cells[self._names.index(name)] for cells in good], name) for name in self._schema.names
        ]
        table = pa.Table.from_arrays(arrays, names=self._schema.names)
        return shaped(table, self._schema), sorted(letters, key=lambda letter: letter[2])

    def _convert(self, cells: list[str], name: str) -> pa.Array:
        assert self._types is not None
        kind = self._types[name]
        if pa.types.is_string(kind):
            return pa.array(cells, kind)
        text = "\n".join(f'"{cell}"' if cell else '""' for cell in cells).encode()
        if not cells:
            return pa.array([], kind)
        options = pacsv.ConvertOptions(column_types={name: kind}, quoted_strings_can_be_null=True)
        read = pacsv.ReadOptions(column_names=[name], use_threads=False, block_size=len(text) + 1)
        return whole(pacsv.read_csv(io.BytesIO(text), read_options=read, convert_options=options).column(0))

    def _misfits(self, cells: list[str], name: str, offset: int, bad: dict[int, str]) -> None:
        """Halve until the cells that do not convert stand alone."""
        assert self._types is not None
        try:
            self._convert(cells, name)
        except pa.ArrowException:
            if len(cells) == 1:
                bad.setdefault(offset, f'"{name}": {cells[0]!r} is not {self._schema.field(name).type}')
                return
            middle = len(cells) // 2
            self._misfits(cells[:middle], name, offset, bad)
            self._misfits(cells[middle:], name, offset + middle, bad)
