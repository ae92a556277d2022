from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, col, count, tumbling
from dataflow.operators.window_aggregate import WindowAggregate
from dataflow.testing import run_rows
from tests.dataflow.cutting import Session, bag, cut_places, cuts, run_cut

SCHEMA = {"k": "string", "x": "int64", "at": "timestamp[s]"}


def build(app: App, **source):
    rows = app.source("in", schema=SCHEMA, event_time="at", **source)
    made = (
        rows.key_by("k")
        .window(tumbling("10s"))
        .aggregate(
            n=count(),
            values=col("x").count(),
            total=col("x").sum(),
            low=col("x").min(),
            high=col("x").max(),
            mean=col("x").mean(),
            first=col("x").first(),
            last=col("x").last(),
        )
    )
    made.with_columns(at=col("window_start").cast(__import__("narwhals").Int64)).select(
        "k", "at", "n", "values", "total", "low", "high", "mean", "first", "last"
    ).sink("out")
    made.late().sink("late")


def oracle(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[row["k"], row["at"] // 10 * 10].append(row["x"])
    out = []
    for (k, at), xs in groups.items():
        v = [x for x in xs if x is not None]
        out.append({
            "k": k, "at": at, "n": len(xs), "values": len(v), "total": sum(v),
            "low": min(v, default=None), "high": max(v, default=None), "mean": sum(v) / len(v) if v else None,
            "first": v[0] if v else None, "last": v[-1] if v else None,
        })  # fmt: skip
    return out


rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", "longer-than-eight", "", None]),
            "x": st.none() | st.integers(-1000, 1000),
            "at": st.integers(-60, 60),
        }
    ),
    max_size=60,
)


@given(rows_strategy, cut_places)
@settings(max_examples=60, deadline=None)
def test_any_cutting_into_batches_gives_what_plain_python_gives(rows, places):
    out = run_cut(lambda app: build(app, lateness="1000s"), [("in", part) for part in cuts(rows, places)])
    assert bag(out["out"]) == bag(oracle(rows))
    assert out["late"] == []


@given(rows_strategy, cut_places)
@settings(max_examples=60, deadline=None)
def test_which_rows_are_late_does_not_depend_on_batches(rows, places):
    def small_bound(app):
        build(app, lateness="5s")

    whole = run_cut(small_bound, [("in", rows)])
    parts = run_cut(small_bound, [("in", part) for part in cuts(rows, places)])
    assert bag(whole["out"]) == bag(parts["out"])
    assert bag(whole["late"]) == bag(parts["late"])
    assert sum(row["n"] for row in parts["out"]) + len(parts["late"]) == len(rows)


def test_a_row_on_the_boundary_begins_the_next_window_also_before_the_epoch():
    app = App("t")
    build(app, lateness="100s")
    rows = [{"k": "a", "x": 1, "at": at} for at in (-10, -1, 0, 9, 10)]
    out = run_rows(app, {"in": rows})["out"]
    assert [(row["at"], row["n"]) for row in out] == [(-10, 2), (0, 2), (10, 1)]


def test_results_come_by_window_and_then_by_first_appearance():
    app = App("t")
    build(app, lateness="100s")
    rows = [{"k": k, "x": 1, "at": at} for k, at in (("z", 12), ("b", 3), ("a", 4), ("b", 5))]
    assert [row["k"] for row in run_rows(app, {"in": rows})["out"]] == ["b", "a", "z"]


def test_time_that_goes_backwards_makes_late_rows_and_no_second_result():
    app = App("t")
    build(app, lateness="0s")
    rows = [{"k": "a", "x": 1, "at": at} for at in (5, 25, 6, 26)]
    out = run_rows(app, {"in": rows}, batch_rows=1)
    assert [(row["at"], row["n"]) for row in out["out"]] == [(0, 1), (20, 2)]
    assert len(out["late"]) == 1


def test_allowed_lateness_keeps_a_window_open_and_still_gives_one_result():
    app = App("t")
    rows = app.source("in", schema=SCHEMA, event_time="at")
    made = rows.key_by("k").window(tumbling("10s"), allowed_lateness="20s").aggregate(n=count())
    made.select("k", "n").sink("out")
    made.late().sink("late")
    data = [{"k": "a", "x": 1, "at": at} for at in (5, 29, 6, 30, 7)]
    out = run_rows(app, {"in": data}, batch_rows=1)
    assert out["out"] == [{"k": "a", "n": 2}, {"k": "a", "n": 1}, {"k": "a", "n": 1}]
    assert [row["x"] for row in out["late"]] == [1]


def test_windows_of_windows_fall_into_the_same_window():
    app = App("t")
    rows = app.source("in", schema=SCHEMA, event_time="at")
    small = rows.key_by("k").window(tumbling("10s")).aggregate(n=count())
    small.key_by().window(tumbling("20s")).aggregate(total=col("n").sum()).select("total").sink("out")
    data = [{"k": k, "x": 1, "at": at} for at in (0, 9, 10, 19, 20, 39) for k in "ab"]
    assert run_rows(app, {"in": data})["out"] == [{"total": 8}, {"total": 4}]


def test_memory_follows_the_keys_that_live_not_those_that_ever_came():
    running = Session(lambda app: build(app, lateness="0s"))
    for window in range(100):
        running.feed("in", [{"k": f"{window}-{n}", "x": 1, "at": window * 10} for n in range(500)])
    operator = running.stateful()[1]
    assert isinstance(operator, WindowAggregate)
    assert operator._keys.live <= 500 and operator._keys.capacity <= 4096
    assert len(operator._panes) <= 500
    assert len(running.end()["out"]) == 50_000
