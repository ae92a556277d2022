"""Python row functions in processes of their own: real parallelism, in order.

A batch is cut into as many slices as there are workers; each works on its own, and the results are put
together again in order, so downstream sees what one process would have given. Workers are fresh interpreters
that import the app file again and find the operator by its number. Nothing is pickled: frames are a length,
a port and Arrow IPC.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import msgpack
import pyarrow as pa

from dataflow.errors import AppError
from dataflow.messages import Data
from dataflow.operators.base import Operator, Output
from dataflow.plan import Stage

HEADER = struct.Struct(">IB")
END_OF_REPLY = 255
FRAME_BYTES_MAX = 1 << 30
ROWS_PER_WORKER_MIN = 256  # below this a trip to another process costs more than it gains


def write_frame(pipe: IO[bytes], port: int, batch: pa.RecordBatch | None) -> None:
    body = b"" if batch is None else _to_ipc(batch)
    pipe.write(HEADER.pack(len(body), port))
    pipe.write(body)
    if port == END_OF_REPLY or batch is None:
        pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[int, pa.RecordBatch | None] | None:
    """(port, batch), or None at the end of the pipe."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    size, port = HEADER.unpack(header)
    if size > FRAME_BYTES_MAX:
        raise AppError(f"a worker sent a frame of {size} bytes")
    if not size:
        return port, None
    with pa.ipc.open_stream(pa.py_buffer(pipe.read(size))) as reader:
        return port, reader.read_next_batch()


def _to_ipc(batch: pa.RecordBatch) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


class Workers(Operator):
    """Stands in for a row operator and hands its batches to processes."""

    ports = 2

    def __init__(self, file: str, node: int, parallelism: int, params: Mapping[str, str]) -> None:
        if not Path(file).is_file():
            raise AppError("map with parallelism needs an app in a file: workers import it again")
        argument = bytes(msgpack.packb([file, node, dict(params)])).hex()
        command = [sys.executable, "-m", "dataflow.engine.worker_main", argument]
        self._node = node
        self._processes = [
            # In a group of their own: Ctrl-C is for the one who feeds them, they end when their pipe does.
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
            for _ in range(parallelism)
        ]

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        count = max(1, min(len(self._processes), batch.num_rows // ROWS_PER_WORKER_MIN))
        edges = [batch.num_rows * at // count for at in range(count + 1)]
        busy = self._processes[:count]
        try:
            for process, start, end in zip(busy, edges, edges[1:], strict=False):
                assert process.stdin is not None
                write_frame(process.stdin, 0, batch.slice(start, end - start))
                process.stdin.flush()
            return [output for process in busy for output in self._reply(process)]
        except BrokenPipeError as error:
            raise AppError(f"a worker process of operator {self._node} has died") from error

    def _reply(self, process: subprocess.Popen[bytes]) -> list[Output]:
        assert process.stdout is not None
        out: list[Output] = []
        while (frame := read_frame(process.stdout)) is not None:
            port, batch = frame
            if port == END_OF_REPLY:
                return out
            out.append((port, Data(batch)))
        raise AppError(f"a worker process of operator {self._node} has died")

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait()
            process.stdout.close()


def with_workers(file: str, params: Mapping[str, str]) -> tuple[Any, list[Workers]]:
    """How to make stages so that parallel ones get workers; the list fills as they are made."""
    made: list[Workers] = []

    def make(stage: Stage) -> Operator:
        node = stage.nodes[-1]
        if node.draft.parallelism == 1:
            return stage.make()
        made.append(Workers(file, node.id, node.draft.parallelism, params))
        return made[-1]

    return make, made
