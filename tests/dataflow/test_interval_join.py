from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App
from dataflow.operators.interval_join import IntervalJoin
from tests.dataflow.cutting import Session, bag, run_cut

row = st.fixed_dictionaries({"k": st.integers(0, 2), "x": st.integers(0, 9), "at": st.integers(-20, 20)})


def build(lower, upper, lateness="1h"):
    def add(app: App) -> None:
        schema = {"k": "int64", "x": "int64", "at": "timestamp[s]"}
        left, right = (app.source(name, schema=schema, event_time="at", lateness=lateness) for name in ("l", "r"))
        joined = left.key_by("k").join(right.key_by("k"), within=(f"{lower}s", f"{upper}s"))
        joined.select("k", "x", "x_right").sink("out")

    return add


@given(
    st.lists(row, max_size=25),
    st.lists(row, max_size=25),
    st.integers(0, 25),
    st.sampled_from([(0, 5), (-5, 0), (-3, 4), (2, 6)]),
)
@settings(max_examples=80, deadline=None)
def test_pairs_within_an_interval_equal_nested_loops(left, right, cut, bounds):
    lower, upper = bounds
    expected = [
        {"k": a["k"], "x": a["x"], "x_right": b["x"]}
        for a in left
        for b in right
        if a["k"] == b["k"] and a["at"] + lower <= b["at"] <= a["at"] + upper
    ]
    steps = [("l", left[:cut]), ("r", right[:cut]), ("l", left[cut:]), ("r", right[cut:])]
    assert bag(run_cut(build(lower, upper), steps)["out"]) == bag(expected)


def test_rows_go_when_no_partner_can_come():
    running = Session(build(0, 5, lateness="0s"))
    for at in range(0, 1000, 10):
        running.feed("l", [{"k": 1, "x": 0, "at": at}])
        running.feed("r", [{"k": 1, "x": 0, "at": at + 1}])
    join = running.stateful()[2]
    assert isinstance(join, IntervalJoin)
    assert sum(len(buffer) for buffer in join._buffers) <= 4
    assert len(running.end()["out"]) == 100
