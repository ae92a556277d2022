"""Aggregates of odd types and odd values, against plain Python."""

import math
import statistics
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, col, count_window
from dataflow.testing import run_rows


def aggregated(kind, values, **wanted):
    app = App("t")
    rows = app.source("in", schema={"x": kind})
    rows.key_by().window(count_window(len(values))).aggregate(**wanted).sink("out")
    return run_rows(app, {"in": [{"x": value} for value in values]}, batch_rows=3)["out"][0]


def test_text_has_a_least_greatest_first_and_last():
    x = col("x")
    values = ["pear", None, "apple", "zebra", "fig", None]
    assert aggregated("string", values, low=x.min(), high=x.max(), first=x.first(), last=x.last(), n=x.count()) == {
        "low": "apple", "high": "zebra", "first": "pear", "last": "fig", "n": 4,
    }  # fmt: skip


def test_times_and_truths():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert aggregated("timestamp[us, UTC]", [at, None], top=col("x").max()) == {"top": at}
    assert aggregated("bool", [True, False, True, None], n=col("x").sum(), any=col("x").max()) == {"n": 2, "any": True}
    assert aggregated("int64", [1, 5, 9], big=(col("x") > 3).sum(), twice=(col("x") * 2).max()) == {
        "big": 2,
        "twice": 18,
    }


def test_nothing_but_null_has_no_greatest_and_no_mean_but_a_sum_of_zero():
    x = col("x")
    made = aggregated("float64", [None, None], total=x.sum(), mean=x.mean(), top=x.max(), sd=x.std(), f=x.first())
    assert made == {"total": 0.0, "mean": None, "top": None, "sd": None, "f": None}


def test_nan_loses_against_any_number():
    assert aggregated("float64", [math.nan, 2.0, math.nan], low=col("x").min(), high=col("x").max()) == {
        "low": 2.0, "high": 2.0,
    }  # fmt: skip


@given(st.lists(st.integers(-100, 100), min_size=2, max_size=20))
@settings(max_examples=30, deadline=None)
def test_spread(values):
    made = aggregated("int64", values, var=col("x").var(), sd=col("x").std())
    assert made["var"] == pytest.approx(statistics.variance(values), abs=1e-9)
    assert made["sd"] == pytest.approx(statistics.stdev(values), abs=1e-9)
