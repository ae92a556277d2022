"""Files as sources: what is good is read, what is bad is set aside with its line, what is wrong is a sentence."""

import json

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
