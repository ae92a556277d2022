"""Blocks of text lines into batches: what the formats (csv_lines, json_lines, text_lines) share.

Arrow parses a whole block at once. Only around lines that fail a block is looked at line by line, to set them
aside with their number and reason and keep the good ones. Pure: bytes in, a batch and letters out.

A declared timestamp may be written as ISO text or as a number in its own unit; the first line decides.
Empty lines are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, cast

import pyarrow as pa

from dataflow.batches import whole
from dataflow.dead_letters import Letter

Line = tuple[int, bytes]  # its number and its text
Parsed = tuple[pa.RecordBatch, list[Letter]]


class Parser(Protocol):
    def parse(self, block: bytes, first_line: int) -> Parsed:
        """Rows of whole lines, and letters for those that are none."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose lines these are, for dead letters."""

    source: str
    file: str

    def letter(self, line: int, reason: str, raw: bytes) -> Letter:
        return (self.source, self.file, line, reason, raw.decode("utf-8", "replace"))


def numbered_lines(block: bytes, first_line: int) -> list[Line]:
    lines = (line.rstrip(b"\r") for line in block.split(b"\n"))
    return [(first_line + at, line) for at, line in enumerate(lines) if line.strip()]


def line_parts(block: bytes, parts: int) -> list[bytes]:
    """The block in about so many parts of whole lines."""
    edges = [0]
    for part in range(1, parts):
        edge = block.find(b"\n", max(edges[-1], len(block) * part // parts)) + 1
        if edges[-1] < edge < len(block):
            edges.append(edge)
    return [block[start:end] for start, end in pairwise([*edges, len(block)])]


def shaped(table: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The table as one batch of exactly this schema; numbers that stand for times become times."""
    arrays = []
    for field in schema:
        array = whole(table.column(field.name))
        if array.type != field.type:
            array = array.view(field.type) if pa.types.is_timestamp(field.type) else array.cast(field.type)
        arrays.append(array)
    return cast(Any, pa.RecordBatch.from_arrays(arrays, schema=schema))
