"""Rows by HTTP: devices POST them, and are told to wait when the app cannot keep up.

    --source readings=http://0.0.0.0:8080/readings
    curl --data '{"room": "attic", "celsius": 31}' http://device:8080/readings

    202  all rows of the request are taken: into memory, where nobody keeps a log (a sender who must not lose any keeps
         them until results show); onto the disk, where somebody does and said so by `answer_when_taken`
    400  a row is broken: the sentence says which; none of the request's rows is taken
    404, 405, 411, 413   another path, another method, no length, more than REQUEST_BYTES_MAX
    429  the queue is full: send the same again after Retry-After seconds
    503  too many connections at once; or the rows are not on the disk yet, and the sender may ask again

A request with an `Idempotency-Key` that was taken before is answered 202 and not taken again, so a sender who missed
the answer may simply repeat. The newest KEYS_MAX keys are remembered.

The standard library's server, a thread for each connection: some hundred small requests a second are what a device
gets. Rejected: an HTTP framework (a dependency for one route); blocking while the queue is full (senders time out and
repeat, which makes it worse).
"""

from __future__ import annotations

import json
import queue
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pyarrow as pa

from dataflow.batches import concat
from dataflow.connectors.line_parsing import Origin
from dataflow.connectors.payloads import Payloads
from dataflow.connectors.protocol import Quiet, Read
from dataflow.errors import AppError

REQUEST_BYTES_MAX: Final = 1 << 20
REQUESTS_WAITING_MAX: Final = 64
"""Up to 64 MiB of text; more would only make rows older before they are worked on."""
KEYS_MAX: Final = 10_000
"""A sender repeats within seconds; this is minutes of senders, and about a megabyte."""
KEY_CHARS_MAX: Final = 200
CONNECTIONS_MAX: Final = 128
"""A thread each."""
CLIENT_SILENCE_S: Final = 10.0
RETRY_AFTER_S: Final = 1
QUIET_AFTER_S: Final = 0.5
TAKEN_S_MAX: Final = 10.0
"""How long an answer waits for the disk; senders commonly give up after half a minute."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    sentence: str
    taken: threading.Event | None = None  # set when whoever reads us has the rows and asks for more


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows of one request, until they are read."""

    batch: pa.RecordBatch
    taken: threading.Event


class Intake:
    """Decides about one request at a time: rows into the queue, or the reason why not."""

    def __init__(self, payloads: Payloads, *, waiting_max: int = REQUESTS_WAITING_MAX) -> None:
        self._payloads = payloads
        self._taken: OrderedDict[str, threading.Event] = OrderedDict()
        self._lock = threading.Lock()  # a parser remembers, and a key must not be taken twice
        self.requests: queue.Queue[Waiting] = queue.Queue(waiting_max)

    def offer(self, body: bytes, key: str | None) -> Answer:
        if key is not None and len(key) > KEY_CHARS_MAX:
            return Answer(400, f"the Idempotency-Key has {len(key)} characters; at most {KEY_CHARS_MAX}")
        with self._lock:
            if key is not None and key in self._taken:
                return Answer(202, "taken before", self._taken[key])
            if self.requests.full():  # before the work of parsing: only we put, so it cannot fill up meanwhile
                return Answer(429, f"the app is busy; send the same again in {RETRY_AFTER_S} s")
            batch, letters = self._payloads.parse([body])
            if letters:
                _, _, _, reason, raw = letters[0]
                return Answer(400, f"{len(letters)} broken rows, none is taken; the first: {reason} in {raw[:80]!r}")
            if not batch.num_rows:
                return Answer(400, "there are no rows in the request")
            taken = threading.Event()
            self.requests.put_nowait(Waiting(batch, taken))
            if key is not None:
                self._taken[key] = taken
                if len(self._taken) > KEYS_MAX:
                    self._taken.popitem(last=False)
        return Answer(202, f"{batch.num_rows} rows", taken)

    def gather(self) -> list[Waiting]:
        """Wait a little for a request, then take all that are there: the disk is asked once for all of them."""
        try:
            requests = [self.requests.get(timeout=QUIET_AFTER_S)]
            while not self.requests.empty():  # only we take
                requests.append(self.requests.get_nowait())
        except queue.Empty:
            return []
        return requests


class HttpSource:
    acknowledges = True

    def __init__(
        self, host: str, port: int, path: str, kind: str = "jsonl", *, waiting_max: int = REQUESTS_WAITING_MAX
    ) -> None:
        self._address = (host, port)
        self._path = path
        self._kind = kind
        self._name = "http"
        self._waiting_max = waiting_max
        self._server: _Server | None = None
        self._answers_wait = False

    def answer_when_taken(self) -> None:
        """Before `read`, by one who has rows on the disk when asking for more."""
        self._answers_wait = True

    def bind(self, name: str, event_time: str | None) -> None:
        self._name = name

    @property
    def port(self) -> int:
        """Where it listens, once it does: port 0 takes any."""
        return int(self._server.server_address[1]) if self._server else self._address[1]

    def listen(self, schema: pa.Schema) -> None:
        """Begin to take requests; `read` does so by itself."""
        intake = Intake(
            Payloads(self._kind, schema, Origin(self._name, f"http {self._path}")), waiting_max=self._waiting_max
        )
        try:
            self._server = _Server(self._address, self._path, intake, answers_wait=self._answers_wait)
        except (OSError, OverflowError) as error:
            host, port = self._address
            why = getattr(error, "strerror", None) or error
            raise AppError(f"cannot listen on {host}:{port}: {why}. Choose another port, or end who uses it") from error
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http ingest", daemon=True).start()

    def read(self, schema: pa.Schema) -> Iterator[Read]:
        if self._server is None:
            self.listen(schema)
        server = self._server
        assert server is not None
        try:
            while True:
                requests = server.intake.gather()
                yield concat([it.batch for it in requests], schema) if requests else Quiet()
                for request in requests:
                    request.taken.set()
        finally:
            self.close()

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], path: str, intake: Intake, *, answers_wait: bool) -> None:
        self.path = path
        self.intake = intake
        self.answers_wait = answers_wait
        self._free = threading.Semaphore(CONNECTIONS_MAX)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = CLIENT_SILENCE_S
    server: _Server

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path.partition("?")[0] != self.server.path:
            self._refuse(Answer(404, f"rows are taken at {self.server.path}"))
        elif not (length.isascii() and length.isdigit()):
            self._refuse(Answer(411, "say Content-Length"))
        elif int(length) > REQUEST_BYTES_MAX:
            self._refuse(Answer(413, f"at most {REQUEST_BYTES_MAX} bytes a request; send several"))
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                self._answer(self._settled(self.server.intake.offer(body, self.headers.get("Idempotency-Key"))))

    def do_GET(self) -> None:
        self._refuse(Answer(405, "POST rows here, one JSON object a line"))

    do_PUT = do_DELETE = do_GET  # noqa: N815

    def _settled(self, answer: Answer) -> Answer:
        if answer.taken is None or not self.server.answers_wait or answer.taken.wait(TAKEN_S_MAX):
            return answer
        return Answer(503, "the rows wait for the disk; ask again with the same Idempotency-Key")

    def _refuse(self, answer: Answer) -> None:
        self.close_connection = True  # the body was not read
        self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        body = json.dumps({"message": answer.sentence}).encode() + b"\n"
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if answer.status in (429, 503):
            self.send_header("Retry-After", str(RETRY_AFTER_S))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Not to stderr, which belongs to the run."""
