from collections import defaultdict
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, col, count, session
from dataflow.testing import run_rows
from tests.dataflow.cutting import cut_places, cuts, run_cut

EPOCH = datetime(1970, 1, 1)
SCHEMA = {"k": "string", "x": "int64", "at": "timestamp[s]"}
rows_strategy = st.lists(
    st.fixed_dictionaries(
        {"k": st.sampled_from(["a", "b", "c"]), "x": st.integers(0, 99), "at": st.integers(-100, 100)}
    ),
    max_size=50,
)


def build(app: App) -> None:
    rows = app.source("in", schema=SCHEMA, event_time="at", lateness="1000s")
    made = rows.key_by("k").window(session("10s")).aggregate(n=count(), total=col("x").sum(), top=col("x").max())
    made.select("k", "n", "total", "top", begin=col("window_start"), end=col("window_end")).sink("out")


def oracle(rows):
    by_key = defaultdict(list)
    for row in rows:
        by_key[row["k"]].append((row["at"], row["x"]))
    out = []
    for k, pairs in by_key.items():
        pairs.sort()
        sessions = [[pairs[0]]]
        for at, x in pairs[1:]:
            if at - sessions[-1][-1][0] < 10:
                sessions[-1].append((at, x))
            else:
                sessions.append([(at, x)])
        for s in sessions:
            xs = [x for _, x in s]
            out.append((k, len(s), sum(xs), max(xs), s[0][0], s[-1][0] + 10))
    return sorted(out)


@given(rows_strategy, cut_places)
@settings(max_examples=80, deadline=None)
def test_sessions_in_any_order_and_cutting_equal_plain_python(rows, places):
    out = run_cut(build, [("in", part) for part in cuts(rows, places)])["out"]
    seconds = [
        (r["k"], r["n"], r["total"], r["top"], *((r[c] - EPOCH) // timedelta(seconds=1) for c in ("begin", "end")))
        for r in out
    ]
    assert sorted(seconds) == oracle(rows)


def test_a_row_between_two_sessions_joins_them():
    app = App("t")
    build(app)
    rows = [{"k": "a", "x": 1, "at": at} for at in (0, 15, 8)]
    assert [row["n"] for row in run_rows(app, {"in": rows}, batch_rows=1)["out"]] == [3]


def test_a_row_exactly_one_gap_later_begins_a_new_session():
    app = App("t")
    build(app)
    assert len(run_rows(app, {"in": [{"k": "a", "x": 1, "at": at} for at in (0, 10)]})["out"]) == 2


def test_sessions_close_on_the_way_and_late_rows_are_set_aside():
    app = App("t")
    made = (
        app.source("in", schema=SCHEMA, event_time="at")
        .key_by("k").window(session("10s")).aggregate(n=count())
    )  # fmt: skip
    made.select("k", "n").sink("out")
    made.late().sink("late")
    rows = [{"k": "a", "x": 1, "at": at} for at in (0, 5, 50, 1, 55)]
    out = run_rows(app, {"in": rows}, batch_rows=1)
    assert out["out"] == [{"k": "a", "n": 2}, {"k": "a", "n": 2}]
    assert len(out["late"]) == 1
