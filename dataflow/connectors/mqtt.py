"""MQTT: a topic as a source, and as a sink. QoS 1 both ways.

    readings.source = mqtt://broker.local/house/+/celsius          --source readings=mqtt://...
    alerts          = mqtt://broker.local/house/alerts?format=csv  --sink alerts=mqtt://...

A source acknowledges a message after the app has taken its rows, so what was on the way when the device lost power is
sent again: at least once. What is published while nobody is connected is lost, unless the source has a name
(`?client=attic`), for which the broker keeps it. A sink publishes one message a row and comes back when the broker
has acknowledged all of them; a broker that is away slows the app, and after `PATIENCE_S` fails it with a sentence.

Payloads are JSON lines (or one JSON value), CSV lines in the schema's order, or text; what cannot be read is a dead
letter whose line is the message's number.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from dataflow.batches import Row, to_rows
from dataflow.connectors.line_parsing import Origin
from dataflow.connectors.mqtt_address import MqttAddress
from dataflow.connectors.mqtt_link import STEP_S_MAX, MqttLink
from dataflow.connectors.payloads import Payloads
from dataflow.connectors.protocol import Letters, Quiet, Read
from dataflow.connectors.sinks import json_line
from dataflow.errors import AppError

MESSAGES_MAX: Final = 1000
"""Most messages of one batch; more would only add latency. Also how many publications wait for the broker's word."""
PATIENCE_S: Final = 60.0
SILENCE_S: Final = 10.0
"""An open connection that takes nothing for so long is dialled again."""


class MqttSource:
    acknowledges = True

    def __init__(self, address: MqttAddress, kind: str = "jsonl") -> None:
        self._address = address
        self._kind = kind
        self._name = "mqtt"
        self._arrived: list[tuple[bytes, Callable[[], None]]] = []

    def bind(self, name: str, event_time: str | None) -> None:
        self._name = name

    def read(self, schema: pa.Schema) -> Iterator[Read]:
        payloads = Payloads(self._kind, schema, Origin(self._name, f"mqtt {self._address.topic}"))
        link = MqttLink(
            self._address, subscribe=True, on_message=lambda payload, taken: self._arrived.append((payload, taken))
        )
        link.open()
        try:
            while True:
                messages = self._gather(link)
                if not messages:
                    yield Quiet()
                    continue
                batch, letters = payloads.parse([payload for payload, _ in messages])
                if letters:
                    yield Letters(letters)
                if batch.num_rows:
                    yield batch
                for _, acknowledge in messages:
                    acknowledge()
        finally:
            link.close()

    def _gather(self, link: MqttLink) -> list[tuple[bytes, Callable[[], None]]]:
        """Wait for a message, then take what else is there already."""
        link.step(STEP_S_MAX)
        seen = 0
        while seen < len(self._arrived) < MESSAGES_MAX:
            seen = len(self._arrived)
            link.step(0)
        arrived, self._arrived = self._arrived, []
        return arrived


class MqttSink:
    def __init__(self, address: MqttAddress, kind: str = "jsonl", *, patience_s: float = PATIENCE_S) -> None:
        self._address = address
        self._write_row = _WRITERS[kind]
        self._patience_s = patience_s
        self._waiting: set[int] = set()
        self._link: MqttLink | None = None

    def open(self, schema: pa.Schema) -> None:
        self._link = MqttLink(self._address, on_taken=self._waiting.discard)
        self._link.open()

    def write(self, batch: pa.RecordBatch) -> None:
        assert self._link is not None
        rows = to_rows(batch)
        for start in range(0, len(rows), MESSAGES_MAX):
            for row in rows[start : start + MESSAGES_MAX]:
                self._waiting.add(self._link.publish(self._write_row(row).encode()))
            self._drain(self._link)

    def _drain(self, link: MqttLink) -> None:
        begin = heard = time.monotonic()
        left = len(self._waiting)
        while self._waiting:
            link.step()
            now = time.monotonic()
            if len(self._waiting) < left:
                left, begin, heard = len(self._waiting), now, now
            elif now - begin > self._patience_s:
                raise AppError(
                    f"the MQTT broker {self._address} has taken nothing for {self._patience_s:g} s; {left} rows wait. "
                    "Look after it, then launch again"
                )
            elif link.is_up and now - heard > SILENCE_S:
                link.redial()
                heard = now

    def close(self) -> None:
        if self._link is not None:
            self._link.close()


def _csv_line(row: Row) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(["" if value is None else value for value in row.values()])
    return out.getvalue()


_WRITERS: dict[str, Callable[[Row], str]] = {"jsonl": json_line, "csv": _csv_line}
SINK_FORMATS = tuple(_WRITERS)
