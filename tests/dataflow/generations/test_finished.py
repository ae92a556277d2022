"""A finished stream shows what is committed and nothing else, and is the same wherever it is restored."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataflow.generations.finished import FinishedStream
from dataflow.hosting.kept_rows import KeptRows

SCHEMA = pa.schema([("n", pa.int64())])


def batch(first, count):
    return pa.record_batch([list(range(first, first + count))], schema=SCHEMA)


def seen(stream):
    return [n for each in stream.kept.batches() for n in each.column("n").to_pylist()]


def test_rows_are_shown_when_their_epoch_stands_and_not_before():
    stream = FinishedStream(SCHEMA)
    stream.take(batch(0, 3))
    stream.close(1)
    stream.take(batch(3, 2))
    assert seen(stream) == []
    stream.show(1)
    assert seen(stream) == [0, 1, 2]
    stream.close(2)
    stream.show(2)
    assert seen(stream) == [0, 1, 2, 3, 4]


def test_a_rollback_forgets_what_was_not_committed_and_keeps_what_was_shown():
    stream = FinishedStream(SCHEMA)
    stream.take(batch(0, 3))
    stream.close(1)
    stream.show(1)
    stream.take(batch(3, 2))
    stream.close(2)
    assert stream.roll_back(3)
    assert seen(stream) == [0, 1, 2] and stream.end == 3
    assert not stream.roll_back(5), "more was committed than was shown here: it must be restored"


def test_a_full_stream_takes_rows_while_their_token_is_on_its_way():
    stream = FinishedStream(SCHEMA, aside_bytes_max=100)
    stream.take(batch(0, 50))
    assert not stream.has_room(0.0) and stream.wants_epoch
    stream.await_token(1)
    assert stream.has_room(0.0), "else the token behind these rows could never come"
    stream.close(1)
    stream.show(1)
    assert stream.has_room(0.0)


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=40), st.integers(0, 40), st.data())
def test_the_parts_of_any_committed_epoch_give_the_stream_of_that_epoch(epochs, small, data):
    """Parts are taken at every token, shown or not; a restore needs those since the last base."""
    stream = FinishedStream(SCHEMA, kept=KeptRows(bytes_max=8 * small + 8))
    parts: list[bytes] = []
    ends, first, count = [], [], 0
    for number, sizes in enumerate(epochs, start=1):
        for size in sizes:
            stream.take(batch(count, size))
            count += size
        part = stream.close(number)
        parts = [part.encode()] if part.is_base else [*parts, part.encode()]
        stream.show(number)
        stream.kept.has_room(0.0)
        ends.append((list(parts), stream.end))
        first.append(stream.kept.first)
    at = data.draw(st.integers(0, len(epochs) - 1))
    again = FinishedStream(SCHEMA)
    again.restore(ends[at][0], end=ends[at][1])
    rows = seen(again)
    assert again.end == again.kept.rows == ends[at][1]
    assert rows == list(range(again.kept.first, ends[at][1])), "no gap and no double"
    assert again.kept.first <= first[at], "nothing that a reader could still ask for is missing"
