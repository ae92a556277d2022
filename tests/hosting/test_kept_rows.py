"""A slow reader slows the sink and misses nothing; without readers memory stays bounded."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataflow.hosting.kept_rows import READER_S_MAX, READERS_MAX, KeptRows


def rows(start, count):
    return pa.RecordBatch.from_pydict({"n": list(range(start, start + count))})


def numbers(reading):
    return [n for batch in reading.batches for n in batch.column("n").to_pylist()]


def test_without_readers_the_oldest_rows_make_room():
    kept = KeptRows(bytes_max=800)
    for start in range(0, 1000, 50):
        assert kept.has_room(0.0)
        kept.append(rows(start, 50))
    assert kept.bytes <= 800 + 400
    late = kept.read("late", 0, 0.0)
    assert late.first == kept.first > 0, "whoever comes late is told what it missed"
    assert numbers(late) == list(range(late.first, 1000))


def test_an_attached_reader_that_does_not_read_stops_the_sink():
    kept = KeptRows(bytes_max=800)
    assert kept.attach("slow", 0, 0.0)
    taken = 0
    while kept.has_room(0.0):
        kept.append(rows(taken, 50))
        taken += 50
    assert taken < 1000
    reading = kept.read("slow", 0, 1.0)
    assert numbers(reading) == list(range(taken))
    kept.read("slow", reading.next, 1.0)
    assert kept.has_room(1.0), "it has read on: there is room again"


def test_a_reader_in_the_middle_of_a_batch_holds_all_of_it():
    kept = KeptRows(bytes_max=400)
    kept.append(rows(0, 50))
    kept.attach("slow", 25, 0.0)
    assert not kept.has_room(0.0)
    reading = kept.read("slow", 25, 0.0)
    assert numbers(reading) == list(range(25, 50))


def test_a_reader_that_went_away_holds_nobody_up():
    kept = KeptRows(bytes_max=400)
    kept.attach("gone", 0, 0.0)
    kept.append(rows(0, 50))
    assert not kept.has_room(READER_S_MAX)
    assert kept.has_room(READER_S_MAX + 1)


def test_one_too_many_readers_is_refused():
    kept = KeptRows()
    assert all(kept.attach(str(at), 0, 0.0) for at in range(READERS_MAX))
    assert not kept.attach("one more", 0, 0.0)
    assert kept.attach("0", 0, 0.0), "who reads already may begin again"


def test_the_end_is_told_with_the_last_row_and_not_before():
    kept = KeptRows()
    kept.append(rows(0, 10))
    kept.end()
    assert kept.read("me", 0, 0.0).is_ended
    assert kept.read("me", 10, 0.0).is_ended
    assert KeptRows().read("me", 0, 0.0).is_ended is False


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60))
def test_a_reader_that_was_there_from_the_start_reads_every_row_once(steps):
    kept = KeptRows(bytes_max=400)
    kept.attach("me", 0, 0.0)
    written, position, seen = 0, 0, []

    def read():
        nonlocal position
        reading = kept.read("me", position, 0.0)
        assert reading.first == position
        seen.extend(numbers(reading))
        position = reading.next

    for count, reads in steps:
        if kept.has_room(0.0):
            kept.append(rows(written, count))
            written += count
        assert kept.bytes <= 400 + 40 * 8
        if reads:
            read()
    while position < written:
        read()
    assert seen == list(range(written))
