"""MQTT against a real broker: rows in, rows out, a broker that goes away and comes back, one that is not there."""

import importlib.util
import socket
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from dataflow import App, AppError, col
from dataflow.batches import from_rows
from dataflow.connectors.mqtt import MqttSink, MqttSource
from dataflow.connectors.mqtt_address import MqttAddress
from dataflow.connectors.protocol import Letters, Quiet
from dataflow.connectors.sinks import Memory
from dataflow.connectors.specs import parse_sink, parse_source
from dataflow.local import run
from dataflow.schema import parse_schema

spec = importlib.util.spec_from_file_location("mqtt_broker", Path(__file__).with_name("broker.py"))
assert spec is not None and spec.loader is not None
broker_module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(broker_module)

SCHEMA = parse_schema({"room": "string", "celsius": "float64"})
ROWS = [{"room": f"room {n}", "celsius": n / 2} for n in range(50)]


@pytest.fixture
def broker(tmp_path):
    it = broker_module.Broker(tmp_path)
    it.start()
    yield it
    it.stop()


def address(broker, **more):
    return MqttAddress("127.0.0.1", broker.port, "house/attic", **more)


def publish(broker, rows, kind="jsonl"):
    sink = MqttSink(address(broker), kind)
    sink.open(SCHEMA)
    sink.write(from_rows(rows, SCHEMA))
    sink.close()


class Reading:
    """A source that is read step by step, as the engine does."""

    def __init__(self, source, schema=SCHEMA):
        self.rows, self.letters = [], []
        self._reads = source.read(schema)
        assert isinstance(next(self._reads), Quiet)  # connected and subscribed, nothing there yet

    def until(self, rows=0, letters=0):
        for each in self._reads:
            if isinstance(each, Letters):
                self.letters += each.letters
            elif isinstance(each, pa.RecordBatch):
                self.rows += each.to_pylist()
            if len(self.rows) >= rows and len(self.letters) >= letters:
                return self
        return None

    def close(self):
        self._reads.close()


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_what_a_sink_publishes_a_source_reads(broker, kind):
    reading = Reading(MqttSource(address(broker), kind))
    publish(broker, ROWS, kind)
    assert reading.until(rows=50).rows == ROWS
    reading.close()


def test_an_app_between_two_topics(broker):
    app = App("hot")
    app.source("in", schema=SCHEMA).filter(col("celsius") > 20).sink("out")
    stop, seen, heard = threading.Event(), Memory(), Reading(MqttSource(MqttAddress("127.0.0.1", broker.port, "hot")))

    class Both(MqttSink):
        def write(self, batch):
            super().write(batch)
            seen.write(batch)
            stop.set()

    class Subscribed(MqttSource):
        def read(self, schema):
            for each in super().read(schema):
                if isinstance(each, Quiet) and not told.is_set():
                    told.set()
                yield each

    told = threading.Event()
    publisher = threading.Thread(target=lambda: (told.wait(), publish(broker, ROWS)))
    publisher.start()
    out = Both(MqttAddress("127.0.0.1", broker.port, "hot"))
    run(app, {"in": Subscribed(address(broker))}, {"out": out}, stop=stop)
    publisher.join()
    assert seen.rows and heard.until(rows=len(seen.rows)).rows == seen.rows
    assert {row["celsius"] > 20 for row in seen.rows} == {True}
    heard.close()


def test_a_bad_message_is_a_dead_letter_also_the_first(broker):
    reading = Reading(MqttSource(address(broker)))
    link = MqttSink(address(broker))
    link._write_row = lambda row: row["room"]  # as a stranger would publish
    link.open(SCHEMA)
    texts = ['{"room": "a"}', "nonsense", '[{"room": "b", "celsius": 1},\n {"room": "c", "celsius": 2}]', "7"]
    link.write(from_rows([{"room": text} for text in texts], SCHEMA))
    link.close()
    reading.until(rows=2, letters=3)
    assert [row["room"] for row in reading.rows] == ["b", "c"]
    assert [(line, reason[:22]) for _, _, line, reason, _ in reading.letters] == [
        (1, 'mqtt house/attic has n'),
        (2, reading.letters[1][3][:22]),
        (4, "not a JSON object"),
    ]
    reading.close()


def test_both_sides_go_on_after_the_broker_was_away(broker):
    reading = Reading(MqttSource(address(broker)))
    sink = MqttSink(address(broker))
    sink.open(SCHEMA)
    sink.write(from_rows(ROWS[:10], SCHEMA))
    reading.until(rows=10)
    broker.stop()
    assert isinstance(next(reading._reads), Quiet)  # others need not wait
    broker.start()
    seen: set[str] = set()
    while not seen:  # one of us may be back before the other has subscribed again
        sink.write(from_rows(ROWS[10:11], SCHEMA))
        for _ in range(5):
            each = next(reading._reads)
            seen |= {row["room"] for row in each.to_pylist()} if isinstance(each, pa.RecordBatch) else set()
    assert seen == {"room 10"}
    reading.close()
    sink.close()


@pytest.mark.skipif(not broker_module.MOSQUITTO, reason="amqtt keeps no messages for a client that is away")
def test_what_is_published_while_a_named_source_is_away_waits_for_it(broker):
    Reading(MqttSource(address(broker, client="attic"))).close()
    publish(broker, ROWS[:3])
    again = MqttSource(address(broker, client="attic")).read(SCHEMA)
    reads = [each for each, _ in zip(again, range(20), strict=False) if isinstance(each, pa.RecordBatch)]
    assert [row for each in reads for row in each.to_pylist()] == ROWS[:3]


def test_a_broker_that_is_not_there_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(AppError, match=rf"the MQTT broker 127\.0\.0\.1:{port} cannot be reached: .*Is it running"):
        next(parse_source(f"mqtt://127.0.0.1:{port}/house").read(SCHEMA))
    with pytest.raises(AppError, match="cannot be reached"):
        parse_sink(f"mqtt://127.0.0.1:{port}/house").open(SCHEMA)


def test_a_sink_whose_broker_stays_away_says_so_in_the_end(broker):
    sink = MqttSink(address(broker), patience_s=0.5)
    sink.open(SCHEMA)
    broker.stop()
    with pytest.raises(AppError, match=r"has taken nothing for 0\.5 s; 50 rows wait"):
        sink.write(from_rows(ROWS, SCHEMA))
    sink.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mqtt://broker", "names no topic"),
        ("mqtt:///topic", "names no host"),
        ("mqtt://host:port/topic", "is not understood"),
        ("mqtt://host/topic?format=xml", 'unknown format "xml"'),
        ("mqtt://host/topic?qos=2", 'unknown option "qos"'),
        ("https://host/rows", "proxy"),
        ("http://:80/rows", "names no host"),
    ],
)
def test_addresses_that_are_none(text, words):
    with pytest.raises(AppError, match=words):
        parse_source(text)


def test_a_password_is_never_printed():
    assert "secret" not in str(MqttAddress.parse("mqtt://anna:secret@host/topic"))
