"""One app on the ring, as its user sees it: sign, launch, print the rows until it ends.

Every stream is read by a thread of its own, through the control socket of the peer that was asked; positions make
sure that a row is printed once. Ctrl-C lets go of the rows, not of the app.
"""

from __future__ import annotations

import base64
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from dataflow.bundles.collecting import collect
from dataflow.bundles.limits import Limits
from dataflow.bundles.sealing import seal
from dataflow.errors import AppError
from peer.apps import sentence
from peer.complaint import Complaint
from peer.control import Where, ask
from peer.operator import insecure_operator, load_operator
from peer.screen import Screen, ScreenSink

LAUNCH_S_MAX: Final = 150.0
"""A scheduler may fall silent in the middle, and another begin anew."""
READ_S_MAX: Final = 20.0
MOVE_S_MAX: Final = 60.0
"""How long a stream may be nowhere, because the peer of its sink died, before whoever reads it gives up."""
MOVE_PAUSE_S: Final = 0.5
STATE_S: Final = 0.3
"""Pause between two looks at an app that is waited for."""


def launch(
    path: Path, params: Mapping[str, str], limits: Limits, *, where: Where, operator: Path, rehearse: bool
) -> dict[str, Any]:
    """Ask a peer to launch a file, signed by the operator of a folder; what it decided, or a `Complaint`."""
    try:
        bundle = collect(path, params, limits)
        is_secure = bool(ask(where, "status")["secure"])
        signer, credential = load_operator(operator) if is_secure else insecure_operator()
        sealed = seal(bundle, signer=signer, credential=credential).pack()
    except AppError as error:
        raise Complaint(sentence(error), f"Mend it, then try: peer validate {path}") from None
    answer: dict[str, Any] = ask(
        where, "launch", patience_s=LAUNCH_S_MAX, sealed=base64.b64encode(sealed).decode(), is_rehearsal=rehearse
    )
    return answer


@dataclass(slots=True)
class Read:
    """What became of the streams that were read."""

    rows: int = 0
    missed: int = 0
    state: str = "running"
    reason: str = ""
    is_interrupted: bool = False


def await_end(where: Where, app: str) -> dict[str, Any]:
    """How the app is doing once every host of it is over. Ctrl-C is for the caller."""
    while True:
        status: dict[str, Any] = ask(where, "app", patience_s=READ_S_MAX, app=app)
        states = {it["state"] for it in status["hosts"].values()}
        if "failed" in states:
            reasons = [it["reason"] for it in status["hosts"].values() if it["state"] == "failed"]
            return status | {"state": "failed", "reason": reasons[0]}
        keeper = status["hosts"].get(status["keeper"], {}).get("state")
        if states <= {"ended", "halted", "silent"} and keeper != "silent":
            return status | {"state": "halted" if "halted" in states else "ended", "reason": ""}
        time.sleep(STATE_S)


def print_streams(where: Where, streams: Sequence[tuple[str, str]], *, form: str, from_now: bool = False) -> Read:
    """Print the rows of streams, each of an app, until they end, or until Ctrl-C."""
    screen = Screen(form=form, shared=len(streams) > 1)
    has_one_app = len({app for app, _ in streams}) == 1
    read = Read()
    halt = threading.Event()
    failures: list[Complaint] = []
    before = signal.signal(signal.SIGINT, lambda *_: halt.set())

    def follow(app: str, stream: str) -> None:
        sink = screen.sink(stream if has_one_app else f"{app}/{stream}")
        try:
            _follow(where, app, stream, sink, read, halt, from_now=from_now)
        except Complaint as complaint:
            failures.append(complaint)
            halt.set()

    threads = [threading.Thread(target=follow, args=each, daemon=True) for each in streams]
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
    where: Where, app: str, stream: str, sink: ScreenSink, read: Read, halt: threading.Event, *, from_now: bool
) -> None:
    position = -1 if from_now else 0
    reader = f"{os.getpid()}-{stream}"
    is_open = False
    silent_since: float | None = None
    while not halt.is_set():
        try:
            answer = ask(where, "tail", patience_s=READ_S_MAX, app=app, stream=stream, position=position, reader=reader)
        except Complaint:
            # The stream may be moving to another peer: it goes on there, at the same position.
            silent_since = silent_since or time.monotonic()
            if not is_open or time.monotonic() > silent_since + MOVE_S_MAX:
                raise
            halt.wait(MOVE_PAUSE_S)
            continue
        silent_since = None
        with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(answer["rows"]))) as rows:
            if not is_open:
                sink.open(rows.schema)
                is_open = True
            for batch in rows:
                sink.write(batch)
                read.rows += batch.num_rows
        if position >= 0:
            read.missed += answer["first"] - position
        position = answer["next"]
        if answer["is_ended"]:
            read.state, read.reason = answer["state"], answer["reason"]
            return
