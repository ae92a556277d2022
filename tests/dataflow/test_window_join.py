import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, AppError, tumbling
from dataflow.testing import run_rows
from tests.dataflow.cutting import bag, run_cut

row = st.fixed_dictionaries(
    {"k": st.sampled_from(["a", "b", None]), "x": st.integers(0, 9), "at": st.integers(-20, 20)}
)


def build(how):
    def add(app: App) -> None:
        left = app.source(
            "l", schema={"k": "string", "x": "int64", "at": "timestamp[s]"}, event_time="at", lateness="1h"
        )
        right = app.source(
            "r", schema={"id": "string", "x": "int64", "at": "timestamp[ms]"}, event_time="at", lateness="1h"
        )
        left.key_by("k").join(right.key_by("id"), window=tumbling("10s"), how=how).select("k", "x", "x_right").sink(
            "out"
        )

    return add


@given(st.lists(row, max_size=25), st.lists(row, max_size=25), st.integers(0, 25), st.sampled_from(["inner", "left"]))
@settings(max_examples=60, deadline=None)
def test_pairs_of_a_window_equal_nested_loops(left, right, cut, how):
    there = [{"id": r["k"], "x": r["x"], "at": r["at"] * 1000} for r in right]
    steps = [("l", left[:cut]), ("r", there[:cut]), ("l", left[cut:]), ("r", there[cut:])]
    expected = []
    for a in left:
        pairs = [b for b in right if a["k"] is not None and a["k"] == b["k"] and a["at"] // 10 == b["at"] // 10]
        expected += [{"k": a["k"], "x": a["x"], "x_right": b["x"]} for b in pairs]
        if not pairs and how == "left":
            expected.append({"k": a["k"], "x": a["x"], "x_right": None})
    assert bag(run_cut(build(how), steps)["out"]) == bag(expected)


def test_keys_must_be_of_one_type():
    app = App("t")
    a = app.source("a", schema={"k": "int64", "at": "timestamp[s]"}, event_time="at")
    b = app.source("b", schema={"k": "string", "at": "timestamp[s]"}, event_time="at")
    with pytest.raises(AppError, match='join: key "k" is int64 but "k" is string'):
        a.key_by("k").join(b.key_by("k"), window=tumbling("1s"))


def test_windows_close_on_the_way_and_late_left_rows_are_set_aside():
    app = App("t")
    a, b = (app.source(n, schema={"k": "int64", "at": "timestamp[s]"}, event_time="at") for n in "ab")
    pairs = a.key_by("k").join(b.key_by("k"), window=tumbling("10s"))
    pairs.select("k").sink("out")
    pairs.late().sink("late")
    rows = {
        "b": [{"k": 1, "at": 5}, {"k": 1, "at": 50}],
        "a": [{"k": 1, "at": 1}, {"k": 1, "at": 50}, {"k": 1, "at": 2}],
    }
    out = run_rows(app, rows, batch_rows=1)
    assert len(out["out"]) == 2 and len(out["late"]) == 1


def test_a_window_stays_open_for_the_finer_unit_when_the_coarser_one_is_through():
    def build(app: App) -> None:
        a = app.source("a", schema={"k": "int64", "at": "timestamp[s]"}, event_time="at")
        b = app.source("b", schema={"k": "int64", "at": "timestamp[ms]"}, event_time="at")
        a.key_by("k").join(b.key_by("k"), window=tumbling("10s")).select("k").sink("out")

    seconds = [{"k": 1, "at": 1}, {"k": 1, "at": 10}]
    steps = [("a", seconds), ("b", [{"k": 1, "at": 9_500}]), ("b", [{"k": 1, "at": 9_700}])]
    assert run_cut(build, steps)["out"] == [{"k": 1}, {"k": 1}]
