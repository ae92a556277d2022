"""A source that a test speaks for: a port to which peers connect, and lines that come when the test says so."""

import json
import socket
import threading


class Feed:
    """`address` is for `tcp:`; `say` sends rows to everybody who is connected, and to nobody twice."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connected: list[socket.socket] = []
        self._change = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            with self._change:
                self._connected.append(stream)
                self._change.notify_all()

    def await_reader(self, within_s: float = 30.0) -> None:
        """Until a peer has connected since the last `hang_up`."""
        with self._change:
            assert self._change.wait_for(lambda: self._connected, within_s), "no peer reads the source"

    def say(self, *rows: dict[str, object]) -> None:
        raw = "".join(json.dumps(row) + "\n" for row in rows).encode()
        for stream in self._connected:
            stream.sendall(raw)

    def hang_up(self) -> None:
        """The source ends, for those who read it."""
        for stream in self._connected:
            stream.close()
        self._connected = []

    def close(self) -> None:
        self.hang_up()
        self._listener.close()
