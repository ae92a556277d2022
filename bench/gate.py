"""The clock of a bench between peers: a source asks when it may begin, a sink tells when it has had all.

The rows are in a peer's process, the watch is in ours. A connector of the bench therefore dials the gate on loopback: a
source once its rows are in memory, and waits for "go"; a sink once for its orders, and once when its input has
ended. Between "go" and the end lie the first and the last row, and nothing of launching or loading.

One line of JSON a message. No thread: the bench waits for nothing else meanwhile.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

WAIT_S_MAX = 300.0


class Gate:
    """In the bench's process. `await_ready`, then `go`, then `await_end`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_S_MAX)
        self._sources: list[socket.socket] = []
        self.orders: dict[str, Any] = {}
        """What the sink is told when it opens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *told: type[BaseException] | BaseException | TracebackType | None) -> None:
        for source in self._sources:
            source.close()
        self._listener.close()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def await_ready(self, sources: int = 1) -> None:
        while len(self._sources) < sources:
            asker, _ = self._listener.accept()
            if _read_line(asker)["who"] == "source":
                self._sources.append(asker)
            else:
                asker.close()  # the end of a run that was given up

    def go(self, **how: Any) -> None:
        for source in self._sources:
            _write_line(source, how)
            source.close()
        self._sources = []

    def await_end(self, *, on_open: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """What the sink tells at its end."""
        while True:
            asker, _ = self._listener.accept()
            with asker:
                told = _read_line(asker)
                if told["what"] == "end":
                    return told
                on_open()
                _write_line(asker, self.orders)


def ask_gate(port: int, **what: Any) -> dict[str, Any]:
    """In a peer's process: say a line, wait for one."""
    with socket.create_connection(("127.0.0.1", port)) as gate:
        gate.settimeout(WAIT_S_MAX)
        _write_line(gate, what)
        return _read_line(gate)


def tell_gate(port: int, **what: Any) -> None:
    with socket.create_connection(("127.0.0.1", port)) as gate:
        _write_line(gate, what)


def _write_line(sock: socket.socket, value: dict[str, Any]) -> None:
    sock.sendall(json.dumps(value).encode() + b"\n")


def _read_line(sock: socket.socket) -> dict[str, Any]:
    with sock.makefile("rb") as lines:
        value: dict[str, Any] = json.loads(lines.readline())
        return value
