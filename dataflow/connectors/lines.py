"""Lines that come when they come: standard input and TCP.

Whatever has arrived is parsed at once, so a quiet line has low latency and a busy one large batches.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Iterator

import pyarrow as pa

from dataflow.connectors.csv_lines import CsvLines
from dataflow.connectors.json_lines import JsonLines
from dataflow.connectors.line_parsing import Origin, Parser
from dataflow.connectors.protocol import Letters, Quiet, Read
from dataflow.connectors.text_lines import TextLines
from dataflow.errors import AppError

CHUNK_BYTES = 1 << 18
LINE_BYTES_MAX = 1 << 20  # a "line" that never ends must not fill memory
QUIET_AFTER_S = 0.5
FORMATS = ("jsonl", "csv", "text")


def make_parser(kind: str, schema: pa.Schema, origin: Origin) -> Parser:
    """Lines of a format; CSV lines without a header follow the schema's order."""
    if kind == "csv":
        return CsvLines(schema, origin, schema.names)
    if kind == "text":
        return TextLines(schema, origin)
    if kind == "jsonl":
        return JsonLines(schema, origin)
    raise AppError(f'unknown format "{kind}"; there is {", ".join(FORMATS)}')


class LineBlocks:
    """Bytes in, whole lines out. Pure."""

    def __init__(self) -> None:
        self._rest = b""

    def push(self, data: bytes) -> bytes:
        whole_lines, newline, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            whole_lines, newline, rest = whole_lines + newline + rest, b"\n", b""
        self._rest = rest
        return whole_lines + newline

    def finish(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest


class _Lines:
    def __init__(self, kind: str, name: str) -> None:
        self._kind = kind
        self._name = name

    def _read_descriptor(self, descriptor: int, schema: pa.Schema) -> Iterator[Read]:
        parser = make_parser(self._kind, schema, Origin(self._name, self._name))
        blocks, line = LineBlocks(), 1
        while True:
            if not select.select([descriptor], [], [], QUIET_AFTER_S)[0]:
                yield Quiet()
                continue
            data = os.read(descriptor, CHUNK_BYTES)
            block = blocks.push(data) if data else blocks.finish()
            batch, letters = parser.parse(block, line)
            line += block.count(b"\n")
            if letters:
                yield Letters(letters)
            if batch.num_rows:
                yield batch
            if not data:
                return


class StdinLines(_Lines):
    def __init__(self, kind: str = "jsonl") -> None:
        super().__init__(kind, "stdin")

    def read(self, schema: pa.Schema) -> Iterator[Read]:
        yield from self._read_descriptor(sys.stdin.fileno(), schema)


class TcpLines(_Lines):
    """Connects to a host and reads until it hangs up."""

    def __init__(self, host: str, port: int, kind: str = "jsonl") -> None:
        super().__init__(kind, f"{host}:{port}")
        self._address = (host, port)

    def read(self, schema: pa.Schema) -> Iterator[Read]:
        try:
            connection = socket.create_connection(self._address, timeout=10)
        except OSError as error:
            raise AppError(f"cannot connect to {self._name}: {error}") from error
        with connection:
            yield from self._read_descriptor(connection.fileno(), schema)
