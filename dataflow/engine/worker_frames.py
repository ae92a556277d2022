"""What travels between an engine and its worker processes: a greeting, then frames of a length, a port and Arrow IPC.

    greeting    length, then msgpack [kind, app, stage, params, limits or None]; kind "file": app is a path,
                kind "bundle": app is the bundle's bytes, so that source never touches a disk
    frame       length, port, body

Three ports are the worker's own words: it is ready, its reply is complete, it has failed (the body is a sentence).
Nothing is pickled.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import msgpack
import pyarrow as pa

from dataflow.bundles.bundle import BUNDLE_BYTES_MAX
from dataflow.bundles.limits import Limits
from dataflow.errors import AppError

HEADER = struct.Struct(">IB")
READY, FAILED, END_OF_REPLY = 253, 254, 255
FRAME_BYTES_MAX = 1 << 30
GREETING_BYTES_MAX = BUNDLE_BYTES_MAX + (1 << 20)
FAILURE_BYTES_MAX = 1 << 16  # a sentence; whatever a user's exception carries is cut


@dataclass(frozen=True, slots=True)
class Greeting:
    """Which stage of which app a worker shall run, and within which limits."""

    app: str | bytes
    """The path of its file, or its bundle."""
    stage: int
    params: Mapping[str, str]
    limits: Limits | None = None

    def pack(self) -> bytes:
        kind = "file" if isinstance(self.app, str) else "bundle"
        limits = self.limits.pack() if self.limits else None
        body = bytes(msgpack.packb([kind, self.app, self.stage, dict(self.params), limits]))
        return HEADER.pack(len(body), 0) + body

    @classmethod
    def read(cls, pipe: IO[bytes]) -> Greeting | None:
        """None if whoever started us has gone before he greeted."""
        header = pipe.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        size, _ = HEADER.unpack(header)
        assert size <= GREETING_BYTES_MAX
        _, app, stage, params, limits = msgpack.unpackb(pipe.read(size))
        return cls(app, stage, params, None if limits is None else Limits.unpack(limits))


def write_frame(pipe: IO[bytes], port: int, batch: pa.RecordBatch | None) -> None:
    body = b"" if batch is None else _to_ipc(batch)
    pipe.write(HEADER.pack(len(body), port))
    pipe.write(body)
    if batch is None:
        pipe.flush()


def write_failure(pipe: IO[bytes], sentence: str) -> None:
    body = sentence.encode("utf-8", "replace")[:FAILURE_BYTES_MAX]
    pipe.write(HEADER.pack(len(body), FAILED))
    pipe.write(body)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[int, pa.RecordBatch | None] | None:
    """(port, batch), or None at the end of the pipe. A worker's failure is raised as its `AppError`."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    size, port = HEADER.unpack(header)
    if size > FRAME_BYTES_MAX:
        raise AppError(f"a worker sent a frame of {size} bytes")
    body = pipe.read(size)
    if len(body) < size:
        return None
    if port == FAILED:
        raise AppError(body.decode("utf-8", "replace"))
    if not size:
        return port, None
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return port, reader.read_next_batch()


def _to_ipc(batch: pa.RecordBatch) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
