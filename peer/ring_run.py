"""One app on the ring, as its user sees it: sign, launch, print the rows until it ends.

Every stream is read by a thread of its own, through the control socket of the peer that was asked; positions make
sure that a row is printed once. Ctrl-C lets go of the rows, not of the app.
"""

from __future__ import annotations

import base64
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from dataflow.bundles.collecting import collect
from dataflow.bundles.limits import Limits
from dataflow.bundles.sealing import seal
from dataflow.errors import AppError
from peer.apps import sentence
from peer.complaint import Complaint
from peer.control import ask
from peer.operator import insecure_operator, load_operator
from peer.screen import Screen

LAUNCH_S_MAX: Final = 150.0
"""A scheduler may fall silent in the middle, and another begin anew."""
READ_S_MAX: Final = 20.0


def launch(
    path: Path, params: Mapping[str, str], limits: Limits, *, data: Path, operator: Path | None, rehearse: bool
) -> dict[str, Any]:
    """Ask the running peer to launch a file; what it decided, or a `Complaint`."""
    try:
        bundle = collect(path, params, limits)
        is_secure = bool(ask(data, "status")["secure"])
        signer, credential = load_operator(operator or data) if is_secure else insecure_operator()
        sealed = seal(bundle, signer=signer, credential=credential).pack()
    except AppError as error:
        raise Complaint(sentence(error), f"Mend it, then try: peer validate {path}") from None
    answer: dict[str, Any] = ask(
        data, "launch", patience_s=LAUNCH_S_MAX, sealed=base64.b64encode(sealed).decode(), is_rehearsal=rehearse
    )
    return answer


@dataclass(slots=True)
class Read:
    """What became of the streams that were read."""

    rows: dict[str, int] = field(default_factory=dict)
    missed: int = 0
    state: str = "running"
    reason: str = ""
    is_interrupted: bool = False


def print_streams(data: Path, app: str, streams: list[str], *, form: str, from_now: bool = False) -> Read:
    """Print the rows of streams until they end, or until Ctrl-C."""
    screen = Screen(form=form, shared=len(streams) > 1)
    read = Read(dict.fromkeys(streams, 0))
    halt = threading.Event()
    failures: list[Complaint] = []
    before = signal.signal(signal.SIGINT, lambda *_: halt.set())

    def follow(stream: str) -> None:
        try:
            _follow(data, app, stream, screen, read, halt, from_now=from_now)
        except Complaint as complaint:
            failures.append(complaint)
            halt.set()

    threads = [threading.Thread(target=follow, args=(stream,), daemon=True) for stream in streams]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not (halt.is_set() and not failures):
                thread.join(0.1)
    finally:
        signal.signal(signal.SIGINT, before)
    if failures:
        raise failures[0]
    read.is_interrupted = halt.is_set()
    return read


def _follow(
    data: Path, app: str, stream: str, screen: Screen, read: Read, halt: threading.Event, *, from_now: bool
) -> None:
    sink = screen.sink(stream)
    position = -1 if from_now else 0
    reader = f"{os.getpid()}-{stream}"
    is_open = False
    while not halt.is_set():
        answer = ask(data, "tail", patience_s=READ_S_MAX, app=app, stream=stream, position=position, reader=reader)
        with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(answer["rows"]))) as rows:
            if not is_open:
                sink.open(rows.schema)
                is_open = True
            for batch in rows:
                sink.write(batch)
                read.rows[stream] += batch.num_rows
        if position >= 0:
            read.missed += answer["first"] - position
        position = answer["next"]
        if answer["is_ended"]:
            read.state, read.reason = answer["state"], answer["reason"]
            return
