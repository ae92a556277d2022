"""Comma-separated lines. A value may not contain a line break.

A block goes through Arrow in bulk. If it has a bad line, lines that look well go in bulk again and only the suspects
are read one by one; if one only looked well (a 13th month), the same is done with parts of the block.
Rejected: halving the block down to the bad lines. A call of Arrow costs as much as reading tens of lines one by
one, and each bad line needs about ten calls: with one bad line in 300 that was slower than reading all one by one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from dataflow.batches import concat, take, whole
from dataflow.connectors.line_parsing import Line, Origin, Parsed, line_parts, numbered_lines, shaped
from dataflow.dead_letters import Letter
from dataflow.errors import AppError, did_you_mean

PARTS = 4
LINES_ONE_BY_ONE_MAX = 64  # a few calls of Arrow cost as much

_NUMBER = re.compile(r"-?\d{5,}$")
_TEXT = rb'(?:[^",]*+|"[^"]*+")'
_ASCII = rb'(?:[^",\x80-\xff]*+|"[^"\x80-\xff]*+")'
_INTEGER = rb"(?:-?\d{1,18})?"
_DECIMAL = rb"(?:-?\d{1,18}(?:\.\d{0,18})?)?"
_TIME = rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{3}){0,3}"


def plain_line(names: Sequence[str], types: Mapping[str, pa.DataType], text: bytes) -> re.Pattern[bytes]:
    """Lines that are almost certainly good. It may suspect good ones (numbers such as 1e5): that only costs time."""

    def cell(kind: pa.DataType | None) -> bytes:
        if kind is not None and pa.types.is_integer(kind):
            return _INTEGER
        if kind is not None and pa.types.is_floating(kind):
            return _DECIMAL
        return _TIME if kind is not None and pa.types.is_timestamp(kind) and kind.tz is None else text

    return re.compile(b",".join(cell(types.get(name)) for name in names))


def is_utf8(line: bytes) -> bool:
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


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
        batches: list[pa.RecordBatch] = []
        letters: list[Letter] = []
        self._search(block, first_line, batches, letters)
        return concat(batches, self._schema), letters

    def _search(self, block: bytes, first_line: int, batches: list[pa.RecordBatch], letters: list[Letter]) -> None:
        batch = self._in_bulk(block)
        bad: list[Letter] = []
        if batch is None:
            lines = numbered_lines(block, first_line)
            few = len(lines) <= LINES_ONE_BY_ONE_MAX
            batch, bad = self._one_by_one(lines) if few else self._without_suspects(lines)
        if batch is not None:
            batches.append(batch)
            letters += bad
            return
        for part in line_parts(block, PARTS):
            self._search(part, first_line, batches, letters)
            first_line += part.count(b"\n")

    def _without_suspects(self, lines: list[Line]) -> tuple[pa.RecordBatch | None, list[Letter]]:
        """Lines that look well in bulk, the others one by one; None if some only looked well."""
        assert self._types is not None
        text = _TEXT if all(is_utf8(line) for _, line in lines) else _ASCII
        looks_well = plain_line(self._names, self._types, text).fullmatch
        well = [line for line in lines if looks_well(line[1])]
        bulk = self._in_bulk(b"\n".join(line for _, line in well) + b"\n") if well else concat([], self._schema)
        if bulk is None or bulk.num_rows != len(well):
            return None, []
        suspects = [line for line in lines if not looks_well(line[1])]
        rescued, letters = self._one_by_one(suspects)
        if not rescued.num_rows:
            return bulk, letters
        bad = {letter[2] for letter in letters}
        numbers = [*(number for number, _ in well), *(number for number, _ in suspects if number not in bad)]
        return take(concat([bulk, rescued], self._schema), np.argsort(numbers)), letters

    def _in_bulk(self, block: bytes) -> pa.RecordBatch | None:
        """All lines at once, or None if there is a bad one."""
        try:
            table = pacsv.read_csv(
                io.BytesIO(block),
                read_options=pacsv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(block) + 1),
                convert_options=pacsv.ConvertOptions(column_types=self._types, include_columns=self._schema.names),
            )
            batch = shaped(table, self._schema)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        # An open quote swallows lines up to the next quote, and all may look well.
        swallowed = batch.num_rows < block.count(b"\n") and batch.num_rows < len(numbered_lines(block, 0))
        return None if swallowed else batch

    def _written_types(self, block: bytes) -> dict[str, pa.DataType]:
        types = {field.name: field.type for field in self._schema}
        first = block.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
        cells = next(csv.reader([first]), [])
        for name, cell in zip(self._names, cells, strict=False):
            if name in types and pa.types.is_timestamp(types[name]) and _NUMBER.match(cell.strip()):
                types[name] = pa.int64()
        return types

    def _one_by_one(self, lines: list[Line]) -> Parsed:
        assert self._types is not None
        rows: list[tuple[int, bytes, list[str]]] = []
        letters: list[Letter] = []
        for number, line in lines:
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
