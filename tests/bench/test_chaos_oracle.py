"""The oracle of the real chaos sees what is lost, doubled or counted wrong."""

from datetime import UTC, datetime, timedelta

import pytest

from bench.chaos_oracle import BEGIN_MS, ROOMS, Oracle

PER_S, PER_SOURCE = 10, 30
ORACLE = Oracle(rows=2 * PER_SOURCE, per_source=PER_SOURCE, per_s=PER_S)


def at(second):
    return datetime.fromtimestamp(BEGIN_MS / 1000, UTC).replace(tzinfo=None) + timedelta(seconds=second)


@pytest.fixture
def streams():
    """What an app without any fault gives."""
    rows = [{"n": n, "room": n % ROOMS, "at": at(n % PER_SOURCE / PER_S)} for n in range(ORACLE.rows)]
    sums: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        sums.setdefault((row["room"], row["n"] % PER_SOURCE // PER_S), []).append(row["n"])
    counts = [
        {"room": room, "window_start": at(second), "readings": len(numbers), "total": sum(numbers)}
        for (room, second), numbers in sums.items()
    ]
    return {"all": rows, "counts": counts, "late": []}


def faults(streams):
    found = ORACLE.judge(streams)
    return found["lost"], found["doubled"], found["windows_wrong"]


def test_a_faultless_run_has_no_faults(streams):
    assert faults(streams) == (0, 0, 0)
    assert ORACLE.judge(streams)["rows_out"] == 60


def test_a_row_that_is_missing_is_lost_and_one_that_comes_twice_is_doubled(streams):
    streams["all"].append(streams["all"].pop(7))
    assert faults(streams) == (0, 0, 0), "the order of rows is nobody's promise"
    streams["all"].append(streams["all"].pop(3) | {"n": 4})
    assert faults(streams) == (1, 1, 0)


def test_a_row_that_nobody_sent_is_as_bad_as_a_doubled_one(streams):
    streams["all"].append({"n": 60, "room": 4, "at": at(0)})
    assert faults(streams) == (0, 1, 0)


def test_a_window_that_counts_a_row_too_few_is_wrong_unless_that_row_was_late(streams):
    row = streams["all"][12]
    window = next(it for it in streams["counts"] if (it["room"], it["window_start"]) == (row["room"], at(1)))
    window["readings"] -= 1
    window["total"] -= row["n"]
    assert faults(streams) == (0, 0, 1)
    streams["late"].append(row)
    assert faults(streams) == (0, 0, 0)


def test_a_window_that_is_given_twice_is_wrong(streams):
    streams["counts"].append(streams["counts"][0] | {"readings": 0, "total": 0})
    assert faults(streams) == (0, 0, 1)
