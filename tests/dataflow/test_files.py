"""Files as sources: what is good is read, what is bad is set aside with its line, what is wrong is a sentence."""

import csv
import json
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import AppError
from dataflow.connectors.csv_lines import CsvLines
from dataflow.connectors.files import FileSource
from dataflow.connectors.json_lines import JsonLines
from dataflow.connectors.line_parsing import Origin
from dataflow.connectors.protocol import Letters
from dataflow.schema import parse_schema

SCHEMA = parse_schema({"room": "string", "celsius": "float64", "at": "timestamp[ms]"})


def read(path, schema=SCHEMA, **options):
    rows, letters = [], []
    for each in FileSource(path, **options).read(schema):
        if isinstance(each, Letters):
            letters += [(line, reason) for _, _, line, reason, _ in each.letters]
        elif isinstance(each, pa.RecordBatch):
            rows += each.to_pylist()
    return rows, letters


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_in_any_column_order_with_extra_columns(tmp_path):
    path = write(
        tmp_path, "r.csv", 'at,note,celsius,room\n2026-01-01T00:00:00,"a,b",1.5,"x y"\n2026-01-01 00:00:01,,,\n'
    )
    rows, letters = read(path)
    assert [(row["room"], row["celsius"]) for row in rows] == [("x y", 1.5), ("", None)] and not letters


def test_bad_csv_lines_are_set_aside_with_number_and_reason(tmp_path):
    text = "room,celsius,at\na,1,1000000\n\nb,hot,1000000\nc,2\nd,3,1000000\ne,4,soon\n\xff,\xff\nf,5,1000000".encode(
        "latin1"
    )
    rows, letters = read(write(tmp_path, "r.csv", text))
    assert [row["room"] for row in rows] == ["a", "d", "f"]
    assert letters == [
        (4, "\"celsius\": 'hot' is not double"),
        (5, "expected 3 values, found 2"),
        (7, "\"at\": 'soon' is not timestamp[ms]"),
        (8, "unreadable: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ]


def test_bad_json_lines_are_set_aside_with_number_and_reason(tmp_path):
    good = {"room": "a", "celsius": 1, "at": 1000, "more": [1]}
    lines = [
        json.dumps(good),
        "{broken",
        "[1]",
        json.dumps({**good, "celsius": "hot"}),
        "",
        json.dumps({"at": 5, "room": "b"}),
    ]
    rows, letters = read(write(tmp_path, "r.jsonl", "\n".join(lines)))
    assert [(row["room"], row["celsius"]) for row in rows] == [("a", 1.0), ("b", None)]
    assert [line for line, _ in letters] == [2, 3, 4]
    assert letters[1][1] == "not a JSON object"


def test_parquet(tmp_path):
    table = pa.table(
        {"celsius": [1, 2], "room": ["a", None], "at": pa.array([1, 2], pa.timestamp("us")).cast("timestamp[us]")}
    )
    path = tmp_path / "r.parquet"
    pq.write_table(table.set_column(2, "at", pa.array([1000, 2000], pa.timestamp("us"))), path)
    assert [row["celsius"] for row in read(path)[0]] == [1.0, 2.0]


def test_text_lines(tmp_path):
    path = write(tmp_path, "w.txt", "to be\n\nor not\n")
    assert read(path, parse_schema({"line": "string"}))[0] == [{"line": "to be"}, {"line": "or not"}]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.csv", "room,celcius,at\n", 'has no column "celsius"; did you mean "celcius"'),
        ("r.csv", "", "is empty"),
        ("r.jsonl", '{"room": "a", "at": 1}\n', 'has no field "celsius"'),
        ("r.parquet", "not parquet", "is not a Parquet file"),
        ("r.what", "", "cannot tell the format"),
        ("r.txt", "x", "text lines need a schema of one string column"),
    ],
)
def test_what_is_wrong_with_a_file_is_a_sentence(tmp_path, name, text, message):
    with pytest.raises(AppError, match=message):
        read(write(tmp_path, name, text))


def test_a_missing_and_an_unreadable_file(tmp_path):
    with pytest.raises(AppError, match="does not exist"):
        read(tmp_path / "no.csv")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(AppError, match="cannot be read"):
        read(tmp_path / "dir.csv")


cell = st.sampled_from(["1", "2.5", "", "bad", "1e5", "x"])


@given(st.lists(st.tuples(st.sampled_from(["a", "b", ""]), cell), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_no_line_is_lost_or_read_twice(lines):
    schema = parse_schema({"n": "int64", "room": "string", "celsius": "float64"})
    text = "\n".join(f"{n},{room},{value}" for n, (room, value) in enumerate(lines)).encode()
    batch, letters = CsvLines(schema, Origin("s", "f"), schema.names).parse(text, 1)
    assert sorted([*(n + 1 for n in batch.column("n").to_pylist()), *(letter[2] for letter in letters)]) == list(
        range(1, len(lines) + 1)
    )
    assert len(letters) == sum(value in ("bad", "x") for _, value in lines)


def test_a_block_of_one_bad_json_line_gives_no_rows():
    batch, letters = JsonLines(SCHEMA, Origin("s", "f")).parse(b"rubbish\n", 7)
    assert batch.num_rows == 0 and letters[0][2] == 7


def parse_csv(text, schema=SCHEMA):
    batch, letters = CsvLines(schema, Origin("s", "f"), schema.names).parse(text, 1)
    return batch.to_pylist(), [letter[2] for letter in letters]


BROKEN = ["kitchen,hot,{at}", "attic,21.5", 'bath,"19.0,{at}', "bath,1,2026-13-01T00:00:00"]


def broken_file(lines, *, broken, every):
    """Lines, and the numbers of those that are broken."""
    out, bad = [], []
    for n in range(1, lines + 1):
        at = f"2026-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"
        if n % every == 0:
            bad.append(n)
        out.append(broken[n // every % len(broken)].format(at=at) if n % every == 0 else f"k\u00fcche,{n}.5,{at}")
    return "\n".join(out).encode(), bad


def test_a_few_bad_lines_do_not_slow_down_the_good_ones():
    text, bad = broken_file(30_000, broken=BROKEN[:3], every=300)
    with patch("dataflow.connectors.csv_lines.csv.reader", side_effect=csv.reader) as one_by_one:
        rows, letters = parse_csv(text)
    assert letters == bad and [row["celsius"] for row in rows] == [n + 0.5 for n in range(1, 30_001) if n % 300]
    assert one_by_one.call_count < 5 * len(bad)


@pytest.mark.parametrize("every", [2, 7, 50, 299])
def test_lines_that_only_look_well_are_found_too_and_order_is_kept(every):
    text, bad = broken_file(900, broken=BROKEN, every=every)
    rows, letters = parse_csv(text)
    assert letters == bad and [row["celsius"] for row in rows] == [n + 0.5 for n in range(1, 901) if n % every]


def test_good_lines_that_look_odd_keep_their_place():
    lines = [("x,1e2" if n % 5 == 0 else "hot,hot" if n % 11 == 0 else f"y,{n}") for n in range(1, 301)]
    rows, letters = parse_csv("\n".join(lines).encode(), parse_schema({"room": "string", "celsius": "float64"}))
    assert letters == [n for n in range(1, 301) if n % 11 == 0 and n % 5]
    assert [row["celsius"] for row in rows] == [100 if n % 5 == 0 else n for n in range(1, 301) if n not in letters]


def test_an_open_quote_swallows_no_lines():
    schema = parse_schema({"room": "string", "note": "string"})
    text = b'a,1\nb,"2\nc,3\nd,4"\ne,5\n'
    rows, letters = parse_csv(text, schema)
    assert [row["room"] for row in rows] == ["a", "c", "d", "e"] and letters == [2]
