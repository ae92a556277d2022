"""Rows by HTTP, in and out, over real sockets: taken once, refused with a reason, told to wait, tried again."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from dataflow import AppError
from dataflow.batches import from_rows
from dataflow.connectors import http_ingest
from dataflow.connectors.http_ingest import REQUEST_BYTES_MAX, HttpSource
from dataflow.connectors.webhook import ROWS_MAX, WebhookSink
from dataflow.schema import parse_schema

SCHEMA = parse_schema({"x": "int64"})


@pytest.fixture
def source():
    it = HttpSource("127.0.0.1", 0, "/rows", waiting_max=2)
    it.listen(SCHEMA)
    yield it
    it.close()


def send(source, body, path="/rows", method="POST", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", source.port, timeout=30)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    message = json.loads(answer.read())["message"]
    connection.close()
    return answer.status, message, answer.headers


def taken(source):
    reads = source.read(SCHEMA)
    rows = []
    while isinstance(each := next(reads), pa.RecordBatch):
        rows += [row["x"] for row in each.to_pylist()]
    reads.close()
    return rows


def test_json_and_json_lines_are_taken(source):
    assert send(source, '{"x": 1}\n{"x": 2}')[:2] == (202, "2 rows")
    assert send(source, '[{"x": 3},\n {"x": 4}]')[:2] == (202, "2 rows")
    assert taken(source) == [1, 2, 3, 4]


def test_a_full_queue_says_wait_and_the_repeat_is_taken_once(source):
    assert [send(source, f'{{"x": {n}}}', Idempotency_Key=str(n))[0] for n in range(3)] == [202, 202, 429]
    status, message, headers = send(source, '{"x": 2}', Idempotency_Key="2")
    assert status == 429 and headers["Retry-After"] == "1" and "busy" in message
    assert send(source, '{"x": 0}', Idempotency_Key="0")[:2] == (202, "taken before")
    assert taken(source) == [0, 1]


def test_where_a_log_is_kept_senders_are_answered_when_their_rows_are_on_the_disk():
    source = HttpSource("127.0.0.1", 0, "/rows")
    source.answer_when_taken()
    source.listen(SCHEMA)
    reads = source.read(SCHEMA)
    answers: queue.Queue[tuple[int, str]] = queue.Queue()
    sending = [
        threading.Thread(target=lambda n=n: answers.put(send(source, f'{{"x": {n}}}', Idempotency_Key=str(n % 2))[:2]))
        for n in (0, 1, 2)  # the last repeats the first, whose answer it missed
    ]
    try:
        for thread in sending:
            thread.start()
        rows: list[int] = []
        while len(rows) < 2 or any(thread.is_alive() for thread in sending):
            if not rows:
                assert answers.empty(), "nobody is told before we have the rows and ask for more"
            each = next(reads)
            rows += [row["x"] % 2 for row in each.to_pylist()] if isinstance(each, pa.RecordBatch) else []
        assert sorted(rows) == [0, 1]
        assert sorted(answers.get_nowait() for _ in sending) == [(202, "1 rows")] * 2 + [(202, "taken before")]
    finally:
        source.close()
        for thread in sending:
            thread.join()


def test_rows_that_do_not_reach_the_disk_are_not_called_taken(monkeypatch):
    monkeypatch.setattr(http_ingest, "TAKEN_S_MAX", 0.01)
    source = HttpSource("127.0.0.1", 0, "/rows")
    source.answer_when_taken()
    source.listen(SCHEMA)
    try:
        for _ in range(2):  # the key is known, and still nobody has the rows
            status, message, headers = send(source, '{"x": 1}', Idempotency_Key="a")
            assert status == 503 and headers["Retry-After"] == "1" and "wait for the disk" in message
        assert taken(source) == [1]
    finally:
        source.close()


def test_a_refused_request_does_not_use_up_its_key(source):
    assert send(source, '{"x": "hot"}', Idempotency_Key="a")[0] == 400
    assert send(source, '{"x": 5}', Idempotency_Key="a")[0] == 202
    assert taken(source) == [5]


@pytest.mark.parametrize(
    ("body", "more", "status", "words"),
    [
        ('{"x": 1}\n{"x": "hot"}', {}, 400, "1 broken rows, none is taken"),
        ("nonsense", {}, 400, "'nonsense'"),
        ('{"y": 1}', {}, 400, 'no field "x"'),
        ("", {}, 400, "no rows"),
        ('{"x": 1}', {"path": "/other"}, 404, "/rows"),
        ("", {"method": "GET"}, 405, "POST rows here"),
        ("", {"Content_Length": "soon"}, 411, "Content-Length"),
        ("", {"Content_Length": str(REQUEST_BYTES_MAX + 1)}, 413, "send several"),
        ('{"x": 1}', {"Idempotency_Key": "k" * 201}, 400, "at most 200"),
    ],
)
def test_what_is_wrong_is_a_sentence_and_nothing_is_taken(source, body, more, status, words):
    answer = send(source, body, **more)
    assert answer[0] == status and words in answer[1]
    assert taken(source) == []


def test_a_port_that_is_in_use_is_a_sentence(source):
    with pytest.raises(AppError, match="cannot listen on 127"):
        next(HttpSource("127.0.0.1", source.port, "/rows").read(SCHEMA))


class Receiver(ThreadingHTTPServer):
    """Answers with the statuses it was given, then with 200; remembers what came."""

    daemon_threads = True

    def __init__(self, statuses=()):
        self.statuses, self.heard = list(statuses), []
        super().__init__(("127.0.0.1", 0), Hook)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def sink(self, **options):
        it = WebhookSink(f"http://127.0.0.1:{self.server_address[1]}/hook?token=secret", backoff_min_s=0.01, **options)
        it.open(SCHEMA)
        return it

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)


class Hook(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.server.heard.append((status, self.headers["Idempotency-Key"], body))
        self.send_response(status)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"no go")

    def log_message(self, *words):
        pass


def batch(count):
    return from_rows([{"x": n} for n in range(count)], SCHEMA)


def test_rows_are_posted_in_bounded_batches_with_a_key_each():
    with Receiver() as receiver:
        sink = receiver.sink()
        sink.write(batch(ROWS_MAX + 1))
        sink.close()
    assert [body.count(b"\n") for *_, body in receiver.heard] == [ROWS_MAX, 1]
    assert len({key for _, key, _ in receiver.heard}) == 2


def test_what_may_pass_is_tried_again_with_the_same_key():
    with Receiver([503, 429, 500]) as receiver:
        sink = receiver.sink()
        sink.write(batch(3))
        sink.close()
    assert [status for status, *_ in receiver.heard] == [503, 429, 500, 200]
    assert len({(key, body) for _, key, body in receiver.heard}) == 1


def test_what_cannot_pass_fails_at_once_with_the_receivers_words():
    words = "/hook refuses the rows: 400 Bad Request no go"
    with Receiver([400]) as receiver, pytest.raises(AppError, match=words) as it:
        receiver.sink().write(batch(1))
    assert len(receiver.heard) == 1 and "secret" not in str(it.value)


def test_attempts_are_bounded():
    with Receiver([503] * 9) as receiver, pytest.raises(AppError, match="did not take 1 rows in 3 attempts: 503"):
        receiver.sink(attempts_max=3).write(batch(1))
    assert len(receiver.heard) == 3
    with pytest.raises(AppError, match=r"in 2 attempts: .*refused"):
        receiver.sink(attempts_max=2).write(batch(1))
