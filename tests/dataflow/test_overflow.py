"""An integer sum that does not fit is a sentence, never a wrapped number."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, AppError, col, count, count_window, session, sliding, tumbling
from dataflow.state.headroom import Headroom
from dataflow.testing import run_rows

BIG = 1 << 62
SCHEMA = {"k": "string", "x": "int64", "at": "timestamp[s]"}
WINDOWS = [tumbling("10s"), sliding("10s", every="2s"), session("5s"), count_window(3)]


def total(window, xs, *, result=None, kind="int64", batch_rows=1000):
    app = App("t")
    rows = app.source("in", schema={**SCHEMA, "x": kind}, event_time="at")
    made = rows.key_by("k").window(window).aggregate(total=col("x").sum() if result is None else result, n=count())
    made.select("total").sink("out")
    steps = [{"k": "a", "x": x, "at": at} for at, x in enumerate(xs)]
    return [row["total"] for row in run_rows(app, {"in": steps}, batch_rows=batch_rows)["out"]]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("batch_rows", [1, 1000])
def test_a_sum_beyond_int64_names_operator_column_and_the_way_out(window, batch_rows):
    sentence = re.escape('aggregate: "total" adds up col("x") to more than int64 holds')
    with pytest.raises(AppError, match=sentence) as told:
        total(window, [BIG, BIG, BIG], batch_rows=batch_rows)
    assert '(col("x") / 1).sum()' in str(told.value) and "test_overflow.py" in str(told.value)


def test_the_way_out_works():
    assert total(tumbling("10s"), [BIG, BIG, BIG], result=(col("x") / 1).sum()) == [3.0 * BIG]


def test_a_mean_is_not_made_of_a_wrapped_sum():
    with pytest.raises(AppError, match='make it float64 first'):
        total(tumbling("10s"), [BIG, BIG], result=col("x").mean())


def test_unsigned_values_beyond_int64_are_not_taken_for_negative_ones():
    with pytest.raises(AppError, match="more than int64 holds"):
        total(tumbling("10s"), [1 << 63], kind="uint64")
    assert total(tumbling("10s"), [5, BIG], kind="uint64") == [BIG + 5]


def test_what_just_fits_is_exact():
    assert total(tumbling("10s"), [BIG, BIG - 1], batch_rows=1) == [2 * BIG - 1]
    assert total(tumbling("10s"), [-BIG, -BIG], batch_rows=1) == [-2 * BIG]


def test_other_groups_and_closed_windows_do_not_count():
    assert total(tumbling("1s"), [BIG] * 8, batch_rows=2) == [BIG] * 8


numbers = st.one_of(st.integers(-9, 9), st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([BIG, -BIG, BIG - 1]))


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), numbers), max_size=6), max_size=6))
@settings(max_examples=300, deadline=None)
def test_headroom_says_no_exactly_when_a_sum_leaves_int64(batches):
    """Against Python's ints, batch after batch."""
    headroom, sums, exact = Headroom(), np.zeros(3, np.int64), [0, 0, 0]
    for batch in batches:
        slots = np.array([slot for slot, _ in batch], np.int64)
        values = np.array([value for _, value in batch], np.int64)
        for slot, value in batch:
            exact[slot] += value
        fits = headroom.fits(sums, slots, values)
        assert fits == all(-(1 << 63) <= each < 1 << 63 for each in exact)
        if not fits:
            return
        np.add.at(sums, slots, values)
        assert sums.tolist() == exact
