"""Read a finished stream by position, and an app's events, while its peers die: each on a thread of its own."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from peer.complaint import Complaint
from peer.fleet import Member

AGAIN_S: Final = 0.2
EVENTS_S: Final = 1.0


class StreamReader(threading.Thread):
    """`rows` as they were finished, and for each page that brought some when it came."""

    def __init__(self, member: Member, app: str, stream: str) -> None:
        super().__init__(daemon=True)
        self.rows: list[dict[str, Any]] = []
        self.arrivals: list[float] = []
        self.is_ended = False
        self.complaint = ""
        self._member, self._app, self._stream = member, app, stream
        self._halted = threading.Event()
        self._position = 0

    def halt(self) -> None:
        self._halted.set()

    def run(self) -> None:
        while not self.is_ended and not self._halted.is_set():
            try:
                self._read()
            except (Complaint, OSError) as error:
                self.complaint = str(error)
                self._halted.wait(AGAIN_S)

    def _read(self) -> None:
        answer = self._member.ask(
            "tail", app=self._app, stream=self._stream, position=self._position, reader="chaos", patience_s=30.0
        )
        with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(answer["rows"]))) as pages:
            found = [row for batch in pages for row in batch.to_pylist()]
        if found:
            self.arrivals.append(time.monotonic())
        self.rows += found
        self._position = answer["next"]
        self.is_ended = answer["is_ended"]


class EventLog(threading.Thread):
    """Whatever the hosts say about the app, kept in a file: a peer that is killed remembers nothing."""

    def __init__(self, member: Member, app: str, path: Path) -> None:
        super().__init__(daemon=True)
        self._member, self._app, self._path = member, app, path
        self._halted = threading.Event()

    def halt(self) -> None:
        self._halted.set()
        self.join(30.0)

    def run(self) -> None:
        told: set[str] = set()
        with self._path.open("a") as file:
            while not self._halted.wait(EVENTS_S):
                try:
                    answer = self._member.ask("logs", app=self._app, patience_s=20.0)
                except (Complaint, OSError):
                    continue
                lines = [json.dumps(it) for it in answer["events"]]
                file.writelines(line + "\n" for line in lines if line not in told)
                file.flush()
                told = set(lines)
