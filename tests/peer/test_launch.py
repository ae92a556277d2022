"""Apps on the command line: what comes out, what is said at the end, and what is said when something is wrong."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from peer.screen import python_rows

ROOT = Path(__file__).parents[2]
HOT_ROOMS = ROOT / "examples" / "hot_rooms.py"
CSV = """room,celsius,at
attic,31,2026-01-01T00:00:00
attic,35,2026-01-01T00:00:09
bath,20,2026-01-01T00:00:20
attic,40,2026-01-01T00:00:01
"""
TWO_SINKS = """
from dataflow import App, col
app = App("two")
low, high = app.source("in", schema={"x": "int64"}).split(col("x") < app.param("limit", 2))
low.sink("low")
high.sink("high")
"""
PICKY = """
from dataflow import App
app = App("picky")
app.source("in", schema={"x": "int64"}).map(lambda row: {"y": 1 // row["x"]}, schema={"y": "int64"}).sink("out")
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with an app and its input, to be in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hot_rooms.py").write_text(HOT_ROOMS.read_text())
    (tmp_path / "rooms.csv").write_text(CSV)
    return tmp_path


LAUNCH = ("launch", "--local", "hot_rooms.py")


def reading(spec):
    return (*LAUNCH, "--source", f"readings={spec}")


# -- a run --


def test_the_rows_of_the_sink_then_the_closing_line(peer, here):
    result = peer(*reading("file:rooms.csv"))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "ROOM      WINDOW_START         WINDOW_END           READINGS  HOTTEST",
        "attic     2026-01-01 00:00:00  2026-01-01 00:00:10         2     35.0",
    ]
    assert result.stderr.startswith("hot-rooms: 4 rows in, 1 row out, 1 late, 0 dead letters, ")
    assert result.stderr.endswith(" rows/s\n")


def test_json_is_a_row_a_line_and_a_closing_object(peer, here):
    result = peer(*reading("file:rooms.csv"), "-o", "json", "--stats", "--until-end")
    assert [json.loads(line)["hottest"] for line in result.stdout.splitlines()] == [35.0]
    told = json.loads(result.stderr)
    assert (told["rows_in"], told["rows_out"], told["late"], told["dead_letters"]) == (4, 1, 1, 0)
    assert (told["sources"], told["sinks"]) == ({"readings": 4}, {"alerts": 1})
    assert told["peak_memory_mib"] > 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_named_sink_goes_to_its_file(peer, here, kind):
    result = peer(*reading("file:rooms.csv"), "--sink", f"alerts=file:out.{kind}", "--stats")
    assert (result.exit_code, result.stdout) == (0, "")
    assert ["sinks", "alerts", "1"] in [line.split() for line in result.stderr.splitlines()]
    read = {
        "csv": lambda path: pacsv.read_csv(path).to_pylist(),
        "parquet": lambda path: pq.read_table(path).to_pylist(),
        "jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    }
    assert [row["hottest"] for row in read[kind](here / f"out.{kind}")] == [35.0]


def test_sinks_that_share_the_console_say_whose_row_it_is(peer, here):
    (here / "two.py").write_text(TWO_SINKS)
    (here / "in.jsonl").write_text('{"x": 1}\n{"x": 2}\n{"x": 300}\n')
    typed = ["launch", "--local", "two.py", "--source", "in=file:in.jsonl"]
    table = peer(*typed).stdout.splitlines()
    assert sorted(table) == ["high    2", "high    X", "high  300", "low  1", "low  X"]
    rows = [json.loads(line) for line in peer(*typed, "-o", "json", "--param", "limit=3").stdout.splitlines()]
    assert sorted((row["sink"], row["row"]["x"]) for row in rows) == [("high", 300), ("low", 1), ("low", 2)]


def test_flags_may_come_from_the_environment(peer, here):
    env = {"SHOAL_LAUNCH_LOCAL": "1", "SHOAL_LAUNCH_SOURCE": "readings=file:rooms.csv", "SHOAL_OUTPUT": "json"}
    assert peer("launch", "hot_rooms.py", env=env).exit_code == 0


def test_times_that_python_cannot_hold_are_shown_as_text():
    batch = pa.record_batch({"at": pa.array([1, 253402300800_000_000], pa.timestamp("us"))})
    assert [row["at"][:10] for row in python_rows(batch)] == ["1970-01-01", "10000-01-0"]


def test_what_a_terminal_would_obey_is_shown_not_done(peer, here):
    (here / "copy.py").write_text(
        'from dataflow import App\napp = App("copy")\napp.source("in", schema={"s": "string"}).sink("out")'
    )
    (here / "in.jsonl").write_text(json.dumps({"s": "\x1b[2Jä\n"}) + "\n")
    result = peer("launch", "--local", "copy.py", "--source", "in=file:in.jsonl")
    assert result.stdout.splitlines() == ["S", r"\x1b[2Jä\n"]


# -- validate and explain --


def test_validate_says_ok_with_both_ends(peer, here):
    result = peer("validate", "hot_rooms.py")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert (result.exit_code, lines[0]) == (0, ["ok:", "app", "hot-rooms"])
    assert lines[2][:5] == ["source", "readings", "at", "room", "string,"]
    assert lines[3][:3] == ["sink", "alerts", "-"]
    told = json.loads(peer("validate", "hot_rooms.py", "-o", "json").stdout)
    assert told["ok"] and [end["name"] for end in told["ends"]] == ["readings", "alerts"]


def test_explain_as_text_and_as_a_picture(peer, here):
    assert peer("explain", "hot_rooms.py").stdout.startswith("app hot-rooms: 3 stages")
    assert peer("explain", "hot_rooms.py", "--dot").stdout.startswith("digraph app {")


# -- what can be wrong --

HEAD = "room,celsius,at\n"
GOOD = "attic,31,2026-01-01T00:00:00\n"
SOURCE = ("--source", "readings=file:rooms.csv")
DRIFT = pa.table({"room": ["a"], "celsius": ["hot"], "at": pa.array([1], pa.timestamp("ms"))})


def parquet(table):
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return out.getvalue().to_pybytes()


APP = 'from dataflow import App, col\napp = App("a")\ns = app.source("in", schema={"x": "int64"})\n'

# what is wrong: files there are, what was typed, the exit code, words of the message: the fact, then the way out
WRONG: dict[str, tuple[dict[str, Any], Sequence[str], int, list[str]]] = {
    "no peer to launch through": (
        {}, ["launch", "hot_rooms.py", "--data", "nowhere"], 1,
        ["No peer is running with its data in nowhere", "peer run --data nowhere"],
    ),
    "a source for the ring": (
        {}, ["launch", "hot_rooms.py", "--source", "readings=stdin"], 2,
        ["--source and --sink are for --local", "peer run --source NAME=SPEC"],
    ),
    "unknown source": (
        {}, [*LAUNCH, "--source", "reading=stdin"], 1,
        ['no source "reading"', 'did you mean "readings"?'],
    ),
    "unknown sink": (
        {}, [*LAUNCH, *SOURCE, "--sink", "alert=null"], 1,
        ['no sink "alert"', 'did you mean "alerts"?'],
    ),
    "source not connected": ({}, LAUNCH, 1, ['"readings" is not connected', "--source readings=file:readings.csv"]),
    "missing file": ({}, reading("file:no.csv"), 1, ["no.csv", "does not exist", "--source readings="]),
    "a folder": ({}, reading("file:."), 1, ["it is a folder", "--source readings="]),
    "unreadable text": (
        {"rooms.csv": b"\xff\xfe\x00"}, [*LAUNCH, *SOURCE], 1,
        ["header is not CSV text", "peer validate"],
    ),
    "unreadable Parquet": (
        {"r.parquet": b"rubbish, not Parquet"},
        reading("file:r.parquet"), 1, ["r.parquet is not a Parquet file", "peer validate"],
    ),
    "an empty file": ({"rooms.csv": b""}, [*LAUNCH, *SOURCE], 1, ["rooms.csv is empty", "line of column names"]),
    "broken row": (
        {"rooms.csv": HEAD + GOOD + "attic,31\n"}, [*LAUNCH, *SOURCE], 0,
        ["rooms.csv:3: expected 3 values, found 2", ".dead_letters()", "1 dead letter,"],
    ),
    "broken row, strict": (
        {"rooms.csv": HEAD + GOOD + "attic,31\n"}, [*LAUNCH, *SOURCE, "--strict"], 1,
        ["rooms.csv:3: expected 3 values, found 2", "There were dead letters, 1", "without --strict"],
    ),
    "only broken rows": (
        {"rooms.csv": HEAD + "attic\n"}, [*LAUNCH, *SOURCE], 1,
        ["No row could be read", "peer validate"],
    ),
    "wrong type": (
        {"rooms.csv": HEAD + GOOD + "attic,hot,2026-01-01T00:00:00\n"}, [*LAUNCH, *SOURCE], 0,
        ["rooms.csv:3: \"celsius\": 'hot' is not double", ".dead_letters()", "1 dead letter,"],
    ),
    "wrong type, strict": (
        {"rooms.csv": HEAD + GOOD + "attic,hot,2026-01-01T00:00:00\n"}, [*LAUNCH, *SOURCE, "--strict"], 1,
        ["'hot' is not double", "There were dead letters, 1"],
    ),
    "schema drift, Parquet": (
        {"r.parquet": parquet(DRIFT)},
        reading("file:r.parquet"), 1, ["does not have the declared types", "peer validate"],
    ),
    "schema drift, half way": (
        {"rooms.csv": HEAD + GOOD + "attic,31,2026-01-01T00:00:00,new\n"}, [*LAUNCH, *SOURCE, "--strict"], 1,
        ["rooms.csv:3: expected 3 values, found 4", "There were dead letters"],
    ),
    "missing column": (
        {"rooms.csv": "room,celcius,at\n"}, [*LAUNCH, *SOURCE], 1,
        ['rooms.csv has no column "celsius"', 'did you mean "celcius"?', "peer validate"],
    ),
    "missing field": (
        {"r.jsonl": '{"room": "a", "at": 1}\n'},
        reading("file:r.jsonl"), 1, ['has no field "celsius"', "peer validate"],
    ),
    "no app file": ({}, ["launch", "--local", "no.py"], 1, ["There is no app file no.py", "examples/hot_rooms.py"]),
    "app file is a folder": ({}, ["validate", "."], 1, [". is not a file", "examples/hot_rooms.py"]),
    "app file raises": (
        {"bad.py": "\n1 / 0"}, ["validate", "bad.py"], 1,
        ["bad.py:2", "ZeroDivisionError", "Mend the app file"],
    ),
    "app file exits": (
        {"bad.py": "exit(0)"}, ["explain", "bad.py"], 1,
        ["bad.py:1", "SystemExit", "Mend the app file"],
    ),
    "app file with a syntax error": (
        {"bad.py": "x = ("}, ["validate", "bad.py"], 1,
        ["bad.py:1: syntax error", "Mend"],
    ),
    "app file of bytes": (
        {"bad.py": b"\x00\xff"}, ["launch", "--local", "bad.py"], 1,
        ["bad.py", "Mend the app file"],
    ),
    "no app in the file": (
        {"bad.py": "x = 1"}, ["launch", "--local", "bad.py"], 1,
        ["no `app` in the file", "app = App("],
    ),
    "unknown column": (
        {"bad.py": APP + 's.filter(col("y") > 1).sink("o")'}, ["validate", "bad.py"], 1,
        ['bad.py:4: filter: no column "y"', "Mend the app file"],
    ),
    "no sink": ({"bad.py": APP}, ["validate", "bad.py"], 1, ["has no sink", '.sink("name")']),
    "bad source spec": ({}, reading("kafka:x"), 1, ['"kafka:x" is not understood', "write file:PATH"]),
    "bad sink spec": (
        {}, [*LAUNCH, *SOURCE, "--sink", "alerts=file:x.xls"], 1,
        ['"file:x.xls" is not understood', "console"],
    ),
    "bad option in a spec": ({}, reading("file:rooms.csv?sped=1"), 1, ['unknown option "sped"', "speed=N"]),
    "bad speed": ({}, reading("file:rooms.csv?speed=fast"), 1, ['speed "fast" is not a number', "--help"]),
    "bad format": ({}, reading("stdin?format=xml"), 1, ['unknown format "xml"', "csv, jsonl"]),
    "not NAME=SPEC": (
        {}, [*LAUNCH, "--source", "rooms.csv"], 2,
        ["not NAME=SPEC", "--source readings=file:rooms.csv"],
    ),
    "given twice": ({}, [*LAUNCH, *SOURCE, *SOURCE], 2, ["--source readings is given twice", "once"]),
    "nobody listens": ({}, reading("tcp:127.0.0.1:9"), 1, ["cannot connect to 127.0.0.1:9", "--help"]),
    "param unknown": ({}, [*LAUNCH, *SOURCE, "--param", "limit=3"], 1, ['no param "limit"', "--param"]),
    "param of a wrong type": (
        {"two.py": TWO_SINKS}, ["validate", "two.py", "--param", "limit=hot"], 1, ["'hot' is not int", "--param"],
    ),
    "not NAME=VALUE": ({}, [*LAUNCH, "--param", "limit"], 2, ["not NAME=VALUE", "--param limit=30"]),
    "sink over its source": (
        {}, [*LAUNCH, *SOURCE, "--sink", "alerts=file:./rooms.csv"], 1, ["would overwrite rooms.csv", "--sink alerts="],
    ),
    "sink that cannot be written": (
        {}, [*LAUNCH, *SOURCE, "--sink", "alerts=file:no/x.csv"], 1, ["no/x.csv cannot be written", "--help"],
    ),
    "a row function that fails": (
        {"picky.py": PICKY, "in.jsonl": '{"x": 1}\n{"x": 0}\n'},
        ["launch", "--local", "picky.py", "--source", "in=file:in.jsonl", "--strict"], 1,
        ["dead letter map <lambda>: ZeroDivisionError", ".dead_letters()", "There were dead letters, 1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_whatever_is_wrong_is_a_sentence_and_an_exit_code(peer, here, case):
    files, typed, code, words = WRONG[case]
    for name, content in files.items():
        (here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = peer(*typed)
    assert result.exit_code == code, result.output
    assert code == 0 or isinstance(result.exception, SystemExit)
    assert [word for word in words if word not in result.stderr] == [], result.stderr
    assert "Traceback" not in result.output


def test_a_sink_is_not_emptied_when_the_source_is_missing(peer, here):
    (here / "out.csv").write_text("precious")
    assert peer(*reading("file:no.csv"), "--sink", "alerts=file:out.csv").exit_code == 1
    assert (here / "out.csv").read_text() == "precious"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_full_disk_is_a_sentence(peer, here, kind):
    result = peer(*LAUNCH, *SOURCE, "--sink", f"alerts=file:/dev/full?format={kind}")
    assert (result.exit_code, "No space left on device" in result.stderr) == (1, True)


# -- in a process of its own: signals, terminals, pipes, imports --


def start(*typed, **options):
    words = [sys.executable, "-m", "peer", *map(str, typed)]
    return subprocess.Popen(words, cwd=ROOT, start_new_session=True, **options)


WORKERS = """
from dataflow import App
app = App("workers")
rows = app.source("in", schema={"x": "int64"}).map(lambda row: row, schema={"x": "int64"}, parallelism=2)
rows.sink("kept")
rows.sink("seen")
"""
COUNT_KEPT = {
    "csv": lambda path: pacsv.read_csv(path).num_rows,
    "parquet": lambda path: pq.read_table(path).num_rows,
    "jsonl": lambda path: len(path.read_text().splitlines()),
}


@pytest.mark.parametrize(
    ("number", "code", "kind"),
    [(signal.SIGINT, 130, "csv"), (signal.SIGINT, 130, "parquet"), (signal.SIGTERM, 143, "jsonl")],
)
def test_an_interrupted_run_closes_its_files_and_says_its_line(here, number, code, kind):
    """The whole group gets the signal, as from a terminal."""
    (here / "workers.py").write_text(WORKERS)
    kept = here / f"kept.{kind}"
    typed = ("launch", "--local", here / "workers.py", "--source", "in=stdin", "--sink", f"kept=file:{kept}")
    pipe = subprocess.PIPE
    with start(*typed, stdin=pipe, stdout=pipe, stderr=pipe) as launch:
        launch.stdin.write(b"".join(b'{"x": %d}\n' % n for n in range(1000)))
        launch.stdin.flush()
        assert launch.stdout.readline().strip() == b"X"  # rows flow
        os.killpg(launch.pid, number)
        _, told = launch.communicate(timeout=60)
    assert launch.returncode == code, told
    assert told.startswith(b"workers: ") and told.count(b"\n") == 1
    rows = int(told.split()[1].replace(b",", b""))
    assert rows and COUNT_KEPT[kind](kept) == rows


def test_a_second_signal_ends_at_once(here):
    (here / "stuck.py").write_text(
        "import time\nfrom dataflow import App\napp = App('stuck')\n"
        "def wait(row):\n    print('here', flush=True)\n    time.sleep(600)\n"
        "app.source('in', schema={'x': 'int64'}).map(wait, schema={'x': 'int64'}).sink('out')\n"
    )
    typed = ("launch", "--local", here / "stuck.py", "--source", "in=stdin")
    with start(*typed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as launch:
        launch.stdin.write(b'{"x": 1}\n')
        launch.stdin.flush()
        assert launch.stdout.readline() == b"here\n"
        while launch.poll() is None:  # the first is taken as a request, whichever comes next is not
            launch.send_signal(signal.SIGINT)
            try:
                launch.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
        assert launch.returncode == 130


def test_a_person_sees_a_bar_and_a_file_gets_only_rows(here):
    screen, end = pty.openpty()
    with (here / "out.txt").open("w") as out:
        typed = ("launch", "--local", HOT_ROOMS, "--source", f"readings=file:{here}/rooms.csv")
        launch = start(*typed, stdout=out, stderr=end)
        os.close(end)
        seen = b""
        while part := read_terminal(screen):
            seen += part
        assert launch.wait(timeout=60) == 0
    os.close(screen)
    assert b"starting" in seen and b"hot-rooms: 4 rows in" in seen
    assert [line.split()[0] for line in (here / "out.txt").read_text().splitlines()] == ["ROOM", "attic"]


def read_terminal(screen):
    try:
        return os.read(screen, 4096)
    except OSError:  # how Linux says that nobody has the other end open
        return b""


def test_whoever_has_seen_enough_may_close_the_pipe(here):
    (here / "copy.py").write_text(
        'from dataflow import App\napp = App("copy")\napp.source("in", schema={"x": "int64"}).sink("out")'
    )
    (here / "in.jsonl").write_text('{"x": 1}\n' * 1_000_000)
    typed = ("launch", "--local", here / "copy.py", "--source", f"in=file:{here}/in.jsonl")
    with start(*typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as launch:
        assert launch.stdout.readline() == b"X\n"
        launch.stdout.close()
        assert launch.stderr.read() == b""
    assert launch.returncode == 1


@pytest.mark.parametrize("typed", ["launch --help", "launch app.py", "validate no.py", "explain --help"])
def test_nothing_heavy_is_imported_before_an_app_is_loaded(typed):
    env = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    with start(*typed.split(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env) as ended:
        told = ended.stderr.read().decode()
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.splitlines() if "|" in line}
    assert "click" in loaded
    assert not loaded & {"pyarrow", "numpy", "narwhals", "rich", "dataflow"}
