from collections import defaultdict
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import col, count, sliding
from dataflow.state.pane_windows import PaneWindows, cover
from tests.dataflow.cutting import bag, cut_places, cuts, run_cut

SCHEMA = {"k": "int64", "x": "int64", "at": "timestamp[ms]"}
rows_strategy = st.lists(
    st.fixed_dictionaries({"k": st.integers(0, 3), "x": st.integers(-50, 50), "at": st.integers(-300, 300)}),
    max_size=40,
)


def oracle(rows, size, slide):
    groups = defaultdict(list)
    for row in rows:
        start = row["at"] // slide * slide
        while start > row["at"] - size:
            groups[row["k"], start].append(row["x"])
            start -= slide
    return [
        {"k": k, "at": at, "n": len(x), "total": sum(x), "low": min(x), "high": max(x), "first": x[0]}
        for (k, at), x in groups.items()
    ]


@given(rows_strategy, cut_places, st.sampled_from([(20, 10), (30, 10), (30, 20), (100, 5), (70, 7)]))
@settings(max_examples=60, deadline=None)
def test_overlapping_windows_equal_plain_python_whatever_the_batches(rows, places, shape):
    size, slide = shape
    rows = sorted(rows, key=lambda row: row["at"])  # first() then means the same to both

    def build(app):
        source = app.source("in", schema=SCHEMA, event_time="at", lateness="10s")
        made = (
            source.key_by("k")
            .window(sliding(f"{size}ms", every=f"{slide}ms"))
            .aggregate(n=count(), total=col("x").sum(), low=col("x").min(), high=col("x").max(), first=col("x").first())
        )
        made.with_columns(at=col("window_start").cast(__import__("narwhals").Int64)).select(
            "k", "at", "n", "total", "low", "high", "first"
        ).sink("out")

    out = run_cut(build, [("in", part) for part in cuts(rows, places)])["out"]
    assert bag(out) == bag(oracle(rows, size, slide))


@given(rows_strategy, cut_places)
@settings(max_examples=40, deadline=None)
def test_windows_that_close_on_the_way_equal_those_that_close_at_the_end(rows, places):
    rows = sorted(rows, key=lambda row: row["at"])

    def build(lateness):
        def add(app):
            source = app.source("in", schema=SCHEMA, event_time="at", lateness=lateness)
            source.key_by("k").window(sliding("100ms", every="10ms")).aggregate(total=col("x").sum()).sink("out")

        return add

    steps = [("in", part) for part in cuts(rows, places)]
    assert bag(run_cut(build("0s"), steps)["out"]) == bag(run_cut(build("10s"), steps)["out"])


@given(st.integers(-500, 500), st.integers(0, 700))
def test_a_cover_is_exact_and_short(start, length):
    parts = list(cover(start, start + length))
    covered = [pane for level, index in parts for pane in range(index << level, (index + 1) << level)]
    assert covered == list(range(start, start + length))
    assert len(parts) <= 2 * max(1, length.bit_length())


@given(st.integers(-100, 100), st.integers(1, 20), st.integers(1, 20))
def test_first_and_last_window_of_a_pane(pane, size, slide):
    slide = min(size, slide)
    shape = PaneWindows(size, slide)
    containing = [s for s in range(-200 * slide, 200 * slide, slide) if s <= pane < s + size]
    assert (shape.first_start(pane), shape.last_start(pane)) == (containing[0], containing[-1])


@given(rows_strategy, cut_places)
@settings(max_examples=40, deadline=None)
def test_many_windows_at_once_equal_one_after_the_other(rows, places):
    rows = sorted(rows, key=lambda row: row["at"])

    def build(app):
        source = app.source("in", schema=SCHEMA, event_time="at")
        made = source.key_by("k").window(sliding("40ms", every="4ms"))
        made.aggregate(n=count(), total=col("x").sum(), first=col("x").first(), last=col("x").last()).sink("out")

    steps = [("in", part) for part in cuts(rows, places)]
    at_once = run_cut(build, steps)["out"]
    with patch("dataflow.state.window_parts.WINDOWS_AT_ONCE_MIN", 10**9):
        one_by_one = run_cut(build, steps)["out"]
    assert at_once == one_by_one
