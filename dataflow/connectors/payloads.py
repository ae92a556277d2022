"""Messages of strangers into rows: what MQTT and HTTP share.

A message holds one or more lines; in JSON it may also be one object or an array of them, written over as many lines
as its sender liked. A message that is not understood becomes dead letters and never stops the source: unlike a file
of the wrong schema, it says nothing about the next one. As in a file, a field that is missing once a good row has
been seen is null. Pure.

    >>> from dataflow.schema import parse_schema
    >>> payloads = Payloads("jsonl", parse_schema({"x": "int64"}), Origin("in", "doc"))
    >>> batch, letters = payloads.parse([b'{"y": 3}', b'[{"x": 1}, {"x": 2}]', b'{"x": 4}'])
    >>> batch.to_pylist(), [(line, reason) for _, _, line, reason, _ in letters]
    ([{'x': 1}, {'x': 2}, {'x': 4}], [(1, 'doc has no field "x"; there is "y"')])
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from dataflow.batches import concat
from dataflow.connectors.line_parsing import Origin, Parsed, numbered_lines
from dataflow.connectors.lines import make_parser
from dataflow.dead_letters import Letter
from dataflow.errors import AppError

MESSAGE_FORMATS = ("jsonl", "csv", "text")


class Payloads:
    def __init__(self, kind: str, schema: pa.Schema, origin: Origin) -> None:
        self._kind = kind
        self._schema = schema
        self._origin = origin
        self._parser = make_parser(kind, schema, origin)
        self._number = 0  # of the message: what a dead letter's line says

    def parse(self, messages: Sequence[bytes]) -> Parsed:
        """The rows of all messages in one batch, and letters that carry their message's number."""
        batches: list[pa.RecordBatch] = []
        letters: list[Letter] = []
        for message in messages:
            self._number += 1
            batch, bad = self._one(message)
            batches.append(batch)
            letters += [(source, file, self._number, reason, raw) for source, file, _, reason, raw in bad]
        return concat(batches, self._schema), letters

    def _one(self, message: bytes) -> Parsed:
        block = _as_lines(message) if self._kind == "jsonl" else message
        try:
            return self._parser.parse(block, 1)
        except AppError:
            return self._line_by_line(block)

    def _line_by_line(self, block: bytes) -> Parsed:
        batches: list[pa.RecordBatch] = []
        letters: list[Letter] = []
        for number, line in numbered_lines(block, 1):
            try:
                batch, bad = self._parser.parse(line, number)
            except AppError as error:
                letters.append(self._origin.letter(number, error.message, line))
                continue
            batches.append(batch)
            letters += bad
        return concat(batches, self._schema), letters


def _as_lines(message: bytes) -> bytes:
    """JSON that is not one object a line, as lines; anything else as it is."""
    text = message.strip()
    if text[:1] not in (b"[", b"{") or (text[:1] == b"{" and b"\n" not in text):
        return message
    try:
        made = json.loads(text)
    except (ValueError, RecursionError):
        return message
    return b"\n".join(json.dumps(row).encode() for row in (made if isinstance(made, list) else [made]))
