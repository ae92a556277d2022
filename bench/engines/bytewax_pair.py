"""Bytewax in two processes with its own TCP exchange between them, on loopback and without TLS.

The first process serves the bench and reads all input; the second is started by it. Each keeps what its sink gets; the
second writes its rows to a file after it has said that it is done. The run ends when both are.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bytewax.operators as op
import pyarrow as pa
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import cluster_main

from bench.engines.bytewax_input import FromList, ToList
from bench.engines.serve import Request

Build = Callable[[Any], Any]
"""From the input stream to the stream of the sink."""
ToTable = Callable[[list[Any]], Any]


class _Nothing(StatelessSourcePartition[Any]):
    def next_batch(self) -> Sequence[Any]:
        raise StopIteration


class FromFirst(DynamicSource[Any]):
    """All input is read by worker 0."""

    def __init__(self, items: Sequence[Any], request: Request | None, *, batch: int) -> None:
        self._items = items
        self._request = request
        self._batch = batch

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Any:
        if worker_index or self._request is None:
            return _Nothing()
        return FromList(self._items, self._request, batch=self._batch).build(step_id, worker_index, worker_count)


def run_first(module: str, items: Sequence[Any], request: Request, build: Build, *, batch: int) -> list[Any]:
    """Run the pair; what the first process kept. The other's table is `second_table`."""
    addresses = _free_addresses(2)
    told = {"addresses": addresses, "kind": request.workload.kind, "file": str(_file(request))}
    second = subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(told)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert second.stdout is not None
    kept: list[Any] = []
    with second:
        cluster_main(_flow(items, request, build, kept, batch), addresses, 0)
        line = second.stdout.readline()
        request.end()
        if line.strip() != "done":
            raise RuntimeError("the second process ended before its time")
    return kept


def run_second(told: dict[str, Any], build: Build, to_table: ToTable) -> None:
    kept: list[Any] = []
    cluster_main(_flow([], None, build, kept, 1), told["addresses"], 1)
    print("done", flush=True)
    table = to_table(kept)
    with pa.OSFile(told["file"], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def second_table(request: Request) -> Any:
    with pa.OSFile(str(_file(request)), "rb") as source:
        return pa.ipc.open_file(source).read_all()


def _flow(items: Sequence[Any], request: Request | None, build: Build, kept: list[Any], batch: int) -> Dataflow:
    flow = Dataflow("bench")
    stream = op.input("in", flow, FromFirst(items, request, batch=batch))
    op.output("out", build(stream), ToList(kept))
    return flow


def _file(request: Request) -> Path:
    return request.scratch / "second.arrow"


def _free_addresses(count: int) -> list[str]:
    """Ports that were free a moment ago: bytewax wants to be told, and cannot say which it got."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{it.getsockname()[1]}" for it in sockets]
    for each in sockets:
        each.close()
    return addresses
