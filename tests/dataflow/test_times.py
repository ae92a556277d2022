"""Time zones, units, epoch zero, negative and missing times."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dataflow import App, count, tumbling
from dataflow.durations import duration_text, duration_us
from dataflow.testing import run_rows


def counted(kind, times, size="10s", **window):
    app = App("t")
    rows = app.source("in", schema={"at": kind}, event_time="at", lateness="1000d")
    rows.key_by().window(tumbling(size, **window)).aggregate(n=count()).sink("out")
    return [(row["window_start"], row["n"]) for row in run_rows(app, {"in": [{"at": at} for at in times]})["out"]]


@pytest.mark.parametrize(
    ("kind", "unit"),
    [("timestamp[s]", 1), ("timestamp[ms]", 10**3), ("timestamp[us]", 10**6), ("timestamp[ns]", 10**9)],
)
def test_every_unit_has_the_same_windows(kind, unit):
    out = counted(kind, [at * unit for at in (-1, 0, 9, 10)])
    assert [n for _, n in out] == [1, 2, 1]


def test_integers_count_milliseconds():
    assert counted("int64", [-1, 0, 9_999, 10_000]) == [(-10_000, 1), (0, 2), (10_000, 1)]


def test_one_instant_is_one_instant_in_every_zone():
    summer = timezone(timedelta(hours=2))
    times = [datetime(2026, 7, 1, 0, 0, 5, tzinfo=UTC), datetime(2026, 7, 1, 2, 0, 6, tzinfo=summer)]
    for kind in ("timestamp[ms, UTC]", "timestamp[ms, Europe/Berlin]"):
        ((start, n),) = counted(kind, times)
        assert n == 2 and start == datetime(2026, 7, 1, tzinfo=UTC)


def test_days_are_days_of_utc_unless_an_offset_says_otherwise():
    late = datetime(2026, 7, 1, 23, 0, tzinfo=UTC)
    ((start, _),) = counted("timestamp[s, UTC]", [late], size="1d")
    assert start == datetime(2026, 7, 1, tzinfo=UTC)
    ((start, _),) = counted("timestamp[s, UTC]", [late], size="1d", offset="-2h")
    assert start == datetime(2026, 7, 1, 22, tzinfo=UTC)


def test_a_row_without_a_time_is_a_dead_letter():
    app = App("t")
    rows = app.source("in", schema={"at": "timestamp[s]"}, event_time="at")
    rows.sink("out")
    rows.dead_letters().select("reason").sink("bad")
    out = run_rows(app, {"in": [{"at": 1}, {"at": None}]})
    assert len(out["out"]) == 1 and out["bad"] == [{"reason": 'event time "at" is null'}]


def test_durations():
    assert duration_us("1h30m") == 5_400_000_000
    assert duration_us("1.5s") == 1_500_000
    assert duration_us(timedelta(milliseconds=3)) == 3000
    assert [duration_text(duration_us(text)) for text in ("10s", "2h", "250ms", "7us")] == ["10s", "2h", "250ms", "7us"]
