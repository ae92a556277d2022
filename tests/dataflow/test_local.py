"""Whole runs in this process: connectors, threads, worker processes, summaries, errors."""

import io
import json
import socket
import threading
from contextlib import redirect_stdout

import pyarrow as pa
import pytest

from dataflow import App, AppError, col, count, tumbling
from dataflow.connectors.generator import Generator
from dataflow.connectors.lines import LineBlocks, TcpLines
from dataflow.connectors.sinks import Memory
from dataflow.loading import load_app
from dataflow.local import Summary, run

HOT_ROOMS = """
from dataflow import App, col, count, tumbling

app = App("hot-rooms")
readings = app.source("readings", schema={"room": "string", "celsius": "float64", "at": "timestamp[ms]"},
                      event_time="at", lateness="2s")
(readings.filter(col("celsius") > 30)
         .key_by("room")
         .window(tumbling("10s"))
         .aggregate(readings=count(), hottest=col("celsius").max())
         .sink("alerts"))
"""
CSV = """room,celsius,at
a,31,2026-01-01T00:00:00
a,35,2026-01-01T00:00:09
b,?,2026-01-01T00:00:09
b,20,2026-01-01T00:00:20
a,40,2026-01-01T00:00:01
"""


@pytest.fixture
def hot_rooms(tmp_path):
    (tmp_path / "hot_rooms.py").write_text(HOT_ROOMS)
    (tmp_path / "rooms.csv").write_text(CSV)
    return load_app(tmp_path / "hot_rooms.py"), f"file:{tmp_path / 'rooms.csv'}"


@pytest.mark.parametrize("threads", [True, False])
def test_ten_lines_run_and_say_what_they_did(hot_rooms, threads):
    app, rooms = hot_rooms
    out = io.StringIO()
    with redirect_stdout(out):
        summary = run(app, {"readings": rooms}, threads=threads)
    assert json.loads(out.getvalue()) == {
        "room": "a",
        "window_start": "2026-01-01 00:00:00",
        "window_end": "2026-01-01 00:00:10",
        "readings": 2,
        "hottest": 35.0,
    }
    assert (summary.rows_in, summary.rows_out, summary.late, summary.dead_letters) == (4, 1, 1, 1)


class Ticks:
    """A source of one's own."""

    def read(self, schema):
        for n in range(3):
            yield [{"n": n}]


class Collect:
    """A sink of one's own."""

    def open(self, schema):
        self.rows = []

    def write(self, batch):
        self.rows += batch.to_pylist()

    def close(self):
        self.rows.append("closed")


def test_a_connector_of_ones_own_is_ten_lines():
    app, out = App("t"), Collect()
    app.source("ticks", schema={"n": "int64"}).filter(col("n") > 0).sink("out")
    run(app, {"ticks": Ticks()}, {"out": out})
    assert out.rows == [{"n": 1}, {"n": 2}, "closed"]


def diamond():
    app = App("diamond")
    rows = app.source("in", schema={"k": "int64", "x": "int64", "at": "timestamp[ms]"}, event_time="at")
    even, odd = rows.split(col("x") % 2 == 0)
    both = even.with_columns(x=col("x") * 10).union(odd)
    both.key_by("k").window(tumbling("100ms")).aggregate(n=count(), total=col("x").sum()).sink("sums")
    both.key_by("k").distinct().sink("firsts")
    return app


def test_threads_give_what_one_thread_gives():
    def batches():
        for step in range(40):
            numbers = list(range(step * 50, step * 50 + 50))
            yield pa.record_batch({
                "k": [n % 7 for n in numbers], "x": numbers, "at": pa.array(numbers, pa.timestamp("ms")),
            })  # fmt: skip

    results = []
    for threads in (True, False):
        sums, firsts = Memory(), Memory()
        run(diamond(), {"in": Generator(batches)}, {"sums": sums, "firsts": firsts}, threads=threads)
        results.append((sorted(map(str, sums.rows)), sorted(row["k"] for row in firsts.rows)))
    assert results[0] == results[1]


PARALLEL = """
import os
from dataflow import App
app = App("parallel")

def work(row):
    print("noise")
    if row["x"] == 7:
        raise ValueError("seven")
    return {"x": row["x"] * 2, "pid": os.getpid()}

made = app.source("in", schema={"x": "int64"}).map(work, schema={"x": "int64", "pid": "int64"}, parallelism=2)
made.sink("out")
made.dead_letters().sink("bad")
"""


def test_map_in_worker_processes_keeps_order_and_sets_bad_rows_aside(tmp_path):
    (tmp_path / "parallel.py").write_text(PARALLEL)
    app, out, bad = load_app(tmp_path / "parallel.py"), Memory(), Memory()
    summary = run(app, {"in": Generator({"x": n} for n in range(2000))}, {"out": out, "bad": bad})
    assert [row["x"] for row in out.rows] == [n * 2 for n in range(2000) if n != 7]
    assert len({row["pid"] for row in out.rows}) == 2
    assert summary.dead_letters == 1 and bad.rows[0]["reason"] == "ValueError: seven"


WIDE = """
import os
from dataflow import App
app = App("wide")
last = app.param("last", -1)

def work(row):
    if row["x"] == last:
        os._exit(3)
    return {"x": row["x"], "text": row["text"] * 2}

app.source("in", schema={"x": "int64", "text": "string"}).map(work, parallelism=2).sink("out")
"""


def test_pieces_and_replies_wider_than_a_pipe_pass_each_other(tmp_path):
    (tmp_path / "wide.py").write_text(WIDE)
    app, out = load_app(tmp_path / "wide.py"), Memory()
    batch = pa.record_batch({"x": pa.array(range(20_000), pa.int64()), "text": pa.array(["ab" * 50] * 20_000)})
    run(app, {"in": Generator([batch])}, {"out": out})
    assert [row["x"] for row in out.rows] == list(range(20_000))
    assert {row["text"] for row in out.rows} == {"ab" * 100}


def test_a_worker_that_dies_among_wide_pieces_is_a_sentence_and_nothing_hangs(tmp_path):
    (tmp_path / "wide.py").write_text(WIDE)
    batch = pa.record_batch({"x": pa.array(range(20_000), pa.int64()), "text": pa.array(["ab" * 50] * 20_000)})
    app = load_app(tmp_path / "wide.py")
    with pytest.raises(AppError, match="ended its worker process with exit code 3"):
        run(app, {"in": Generator([batch])}, {"out": Memory()}, params={"last": "3000"})


def test_rows_that_do_not_fit_and_connectors_that_fail_are_sentences():
    app = App("t")
    app.source("in", schema={"x": "int64"}).sink("out")

    class Broken:
        def read(self, schema):
            yield [{"x": 1}]
            raise OSError("the sensor fell off")

    with pytest.raises(AppError, match='source "in" gave rows that do not fit its schema'):
        run(app, {"in": Generator([{"x": "a"}])}, {"out": "null"})
    with pytest.raises(AppError, match=r"declares \(x int64\) but its connector gave \(y int64\)"):
        run(app, {"in": Generator([pa.record_batch({"y": [1]})])}, {"out": "null"})
    with pytest.raises(OSError, match="fell off"):
        run(app, {"in": Broken()}, {"out": "null"})


@pytest.mark.parametrize(
    ("sources", "sinks", "message"),
    [
        ({}, {}, 'source "in" is not connected; give for example --source in=file:in.csv'),
        ({"in": "null", "inn": "x"}, {}, 'no source "inn"; did you mean "in"'),
        ({"in": "kafka:x"}, {}, 'source "kafka:x" is not understood'),
        ({"in": "file:x.csv?speed=fast"}, {}, 'speed "fast" is not a number'),
        ({"in": "file:x.csv?sped=1"}, {}, 'unknown option "sped"'),
        ({"in": "stdin?format=xml"}, {}, 'unknown format "xml"'),
        ({"in": "stdin"}, {"outt": "console"}, 'there is no sink "outt"; did you mean "out"'),
        ({"in": "stdin"}, {"out": "file:x.xls"}, 'sink "file:x.xls" is not understood'),
    ],
)
def test_wrong_connections_are_sentences(sources, sinks, message):
    app = App("t")
    app.source("in", schema={"x": "int64"}).sink("out")
    with pytest.raises(AppError, match=message.replace("?", r"\?")):
        run(app, sources, sinks)


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl", "o.parquet"])
def test_what_is_written_can_be_read_again(tmp_path, name):
    def copy(source, sink):
        app = App("copy")
        app.source("in", schema={"x": "int64", "at": "timestamp[ms]"}).sink("out")
        run(app, {"in": source}, {"out": sink})

    rows = [{"x": n, "at": 1000 * n} for n in range(5)]
    back = Memory()
    copy(Generator(rows), f"file:{tmp_path / name}")
    copy(f"file:{tmp_path / name}", back)
    assert [row["x"] for row in back.rows] == [0, 1, 2, 3, 4]
    assert back.rows[4]["at"].timestamp != 0


def test_a_sink_that_cannot_be_written_is_a_sentence(tmp_path):
    app = App("t")
    app.source("in", schema={"x": "int64"}).sink("out")
    with pytest.raises(AppError, match="cannot be written"):
        run(app, {"in": Generator([])}, {"out": f"file:{tmp_path / 'no' / 'o.csv'}"})


def test_lines_over_tcp():
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = server.accept()
        with connection:
            connection.sendall(b'{"x": 1}\n{"x"')
            connection.sendall(b': 2}\nrubbish\n{"x": 3}')

    thread = threading.Thread(target=serve)
    thread.start()
    app, out = App("t"), Memory()
    app.source("in", schema={"x": "int64"}).sink("out")
    summary = run(app, {"in": TcpLines("127.0.0.1", server.getsockname()[1])}, {"out": out})
    thread.join()
    server.close()
    assert [row["x"] for row in out.rows] == [1, 2, 3] and summary.dead_letters == 1
    with pytest.raises(AppError, match="cannot connect"):
        run(app, {"in": TcpLines("127.0.0.1", 9)}, {"out": "null"})


def test_lines_are_cut_only_at_their_ends():
    blocks = LineBlocks()
    assert [blocks.push(part) for part in (b"a\nb", b"c\n\n", b"d")] == [b"a\n", b"bc\n\n", b""]
    assert blocks.finish() == b"d"


def test_a_run_can_be_stopped_and_tells_its_progress():
    app, stop, seen = App("t"), threading.Event(), []

    class Endless:
        def read(self, schema):
            while not stop.is_set():
                yield [{"x": 1}] * 100

    def watch(summary: Summary):
        seen.append(summary)
        stop.set()

    app.source("in", schema={"x": "int64"}).sink("out")
    summary = run(app, {"in": Endless()}, {"out": "null"}, on_progress=watch, stop=stop)
    assert seen and summary.rows_in >= seen[0].rows_in > 0


def test_params_rebuild_the_app(tmp_path):
    (tmp_path / "p.py").write_text(
        'from dataflow import App, col\napp = App("p")\nlow = app.param("low", 1)\n'
        'app.source("in", schema={"x": "int64"}).filter(col("x") >= low).sink("out")\n'
    )
    out = Memory()
    run(load_app(tmp_path / "p.py"), {"in": Generator({"x": n} for n in range(5))}, {"out": out}, params={"low": "3"})
    assert [row["x"] for row in out.rows] == [3, 4]


@pytest.mark.parametrize("threads", [True, False])
def test_a_stage_or_a_sink_that_fails_ends_the_run_with_its_own_error(threads):
    app = App("t")
    rows = app.source("in", schema={"x": "int64"})
    rows.map_batches(lambda batch: 1 / 0).sink("out")
    endless = Generator([{"x": 1}] * 10 for _ in range(1000))
    with pytest.raises(AppError, match="map_batches: ZeroDivisionError"):
        run(app, {"in": endless}, {"out": "null"}, threads=threads)

    class Full(Collect):
        def write(self, batch):
            raise OSError("disk full")

    app = App("t")
    app.source("in", schema={"x": "int64"}).filter(col("x") > 0).sink("out")
    with pytest.raises(OSError, match="disk full"):
        run(app, {"in": Generator([{"x": 1}] * 10 for _ in range(1000))}, {"out": Full()}, threads=threads)


class Refuses(Collect):
    """A sink that cannot be opened, and does not like to be closed either."""

    def open(self, schema):
        raise AppError("the disk is full")

    def close(self):
        raise AssertionError("never opened")


def test_a_sink_that_does_not_open_leaves_no_other_open():
    app, first, last = App("t"), Collect(), Collect()
    rows = app.source("ticks", schema={"n": "int64"})
    for name in ("first", "second", "last"):
        rows.sink(name)
    with pytest.raises(AppError, match="the disk is full"):
        run(app, {"ticks": Ticks()}, {"first": first, "second": Refuses(), "last": last})
    assert first.rows == ["closed"] and not hasattr(last, "rows")
