"""After a restart a file or a generator goes on behind what was read before."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow import AppError
from dataflow.connectors import files
from dataflow.connectors.files import FileSource
from dataflow.connectors.generator import Generator
from dataflow.connectors.lines import StdinLines
from dataflow.connectors.protocol import Letters, Quiet
from dataflow.connectors.replaying import continue_after, is_replayable, read_after, units_of

SCHEMA = pa.schema([("x", pa.int64())])


def flat(reads):
    out = []
    for read in reads:
        if isinstance(read, Letters):
            out += [letter[2] for letter in read.letters]
        elif isinstance(read, pa.RecordBatch):
            out += read.to_pylist()
        elif isinstance(read, list):
            out += read
    return out


numbers = st.lists(st.integers(0, 99), max_size=5)
read = st.one_of(
    numbers.map(lambda xs: pa.RecordBatch.from_arrays([pa.array(xs, pa.int64())], schema=SCHEMA)),
    numbers.map(lambda xs: [{"x": x} for x in xs]),
    numbers.map(lambda xs: Letters([("in", "", x, "bad", "?") for x in xs])),
    st.just(Quiet()),
)


@given(st.lists(read), st.data())
def test_what_is_left_is_everything_but_the_first_units(reads, data):
    total = sum(map(units_of, reads))
    units = data.draw(st.integers(0, total))
    left = list(continue_after(reads, units))
    assert flat(left) == flat(reads)[units:]
    assert sum(map(units_of, left)) == total - units


@pytest.mark.parametrize("units", [0, 1, 5, 6, 7, 40, 99, 100])
def test_a_file_with_broken_lines_goes_on_at_any_row_or_letter(tmp_path, monkeypatch, units):
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join("broken\n" if n % 7 == 3 else json.dumps({"x": n}) + "\n" for n in range(100)))
    source = FileSource(path)
    assert is_replayable(source)
    assert flat(read_after(source, SCHEMA, units)) == flat(source.read(SCHEMA))[units:]


def test_a_paced_file_does_not_wait_again_for_rows_that_were_read_before(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("x,at\n1,2020-01-01T00:00:00\n2,2021-01-01T00:00:00\n3,2021-01-01T00:00:00\n")
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    schema = pa.schema([("x", pa.int64()), ("at", pa.timestamp("s"))])
    source = FileSource(path, speed=1.0, event_time="at")
    assert [row["x"] for row in flat(read_after(source, schema, 1))] == [2, 3]
    assert sum(waited) < 1.0, "a year lies between the first two rows"


def test_a_file_that_became_shorter_is_noticed(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": 1}\n')
    with pytest.raises(AppError, match=r"rows\.jsonl gave 5 rows before, and only 1 now"):
        list(read_after(FileSource(path), SCHEMA, 5))


def test_a_generator_begins_again_and_an_iterator_goes_on():
    def rows():
        return ({"x": n} for n in range(10))

    assert flat(read_after(Generator(rows), SCHEMA, 7)) == [{"x": 7}, {"x": 8}, {"x": 9}]
    assert flat(read_after(Generator(list(rows())), SCHEMA, 9)) == [{"x": 9}]
    once = rows()
    next(once)
    assert len(flat(read_after(Generator(once), SCHEMA, 5))) == 9


def test_who_cannot_give_anything_twice_just_goes_on():
    assert not is_replayable(StdinLines("jsonl"))
