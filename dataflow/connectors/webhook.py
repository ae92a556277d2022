"""Rows to somebody's web hook: POSTed in batches, again if need be, never twice if the receiver looks at the key.

    --sink alerts=https://hooks.example.org/alerts

The body is JSON lines, at most ROWS_MAX rows. Every batch has an `Idempotency-Key` that stays the same however often
it is sent. What may pass (no connection, 408, 425, 429, 5xx) is tried again with backoff and jitter, or when the
receiver's Retry-After says; what cannot (another 4xx) fails the app at once with the receiver's own words. After
ATTEMPTS_MAX the app fails too: a receiver that is away slows it first, and does not fill memory.
"""

from __future__ import annotations

import http.client
import random
import secrets
import time
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa

from dataflow.batches import Row, to_rows
from dataflow.connectors.sinks import json_line
from dataflow.errors import AppError
from overlay.backoff import Backoff

ROWS_MAX: Final = 500
"""Large enough to be cheap, small enough for a receiver that limits bodies to 100 kB or so."""
ATTEMPTS_MAX: Final = 10
"""With a wait of up to 8 s after each: about a minute."""
RETRY_AFTER_S_MAX: Final = 30.0
TIMEOUT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 1 << 16
PASSING = frozenset({408, 425, 429})


class WebhookSink:
    def __init__(self, url: str, *, attempts_max: int = ATTEMPTS_MAX, backoff_min_s: float = 0.2) -> None:
        parts = urlsplit(url)
        assert parts.hostname, url
        self._where = f"{parts.scheme}://{parts.hostname}{parts.path}"  # no password, no query: both may be secret
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = make(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self._attempts_max = attempts_max
        self._backoff_min_s = backoff_min_s
        self._rng = random.Random()
        self._run = ""
        self._sent = 0

    def open(self, schema: pa.Schema) -> None:
        self._run = secrets.token_hex(8)

    def write(self, batch: pa.RecordBatch) -> None:
        rows = to_rows(batch)
        for start in range(0, len(rows), ROWS_MAX):
            self._deliver(rows[start : start + ROWS_MAX])

    def close(self) -> None:
        self._connection.close()

    def _deliver(self, rows: list[Row]) -> None:
        body = "".join(f"{json_line(row)}\n" for row in rows).encode()
        key = f"{self._run}-{self._sent}"
        self._sent += 1
        backoff = Backoff(min_s=self._backoff_min_s)
        fault = ""
        for attempt in range(self._attempts_max):
            if attempt:
                time.sleep(max(0.0, backoff.not_before - time.monotonic()))
            fault, retry_after_s = self._post(body, key)
            if not fault:
                return
            backoff.on_failure(time.monotonic(), self._rng)
            backoff.not_before = max(backoff.not_before, time.monotonic() + retry_after_s)
        raise AppError(
            f"{self._where} did not take {len(rows)} rows in {self._attempts_max} attempts: {fault}. "
            "Look after the receiver, then launch again"
        )

    def _post(self, body: bytes, key: str) -> tuple[str, float]:
        """What went wrong (nothing: an empty text), and how long to wait at least."""
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key}
        try:
            self._connection.request("POST", self._target, body, headers)
            answer = self._connection.getresponse()
            text = answer.read(ANSWER_BYTES_MAX)
            if not answer.isclosed():
                self._connection.close()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return str(error) or type(error).__name__, 0.0
        if 200 <= answer.status < 300:
            return "", 0.0
        said = f"{answer.status} {answer.reason} {text[:200].decode('utf-8', 'replace')}"
        if answer.status < 500 and answer.status not in PASSING:
            raise AppError(f"{self._where} refuses the rows: {' '.join(said.split())}")
        return " ".join(said.split()), retry_after_s(answer.headers.get("Retry-After"))


def retry_after_s(text: str | None) -> float:
    """The receiver's wish in seconds, within reason; a date, or nonsense, is no wish.

    >>> retry_after_s("2"), retry_after_s("9999"), retry_after_s("Fri, 31 Dec 1999"), retry_after_s(None)
    (2.0, 30.0, 0.0, 0.0)
    """
    return min(float(text), RETRY_AFTER_S_MAX) if text and text.isascii() and text.isdigit() else 0.0
