from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App
from dataflow.testing import run_rows
from tests.dataflow.cutting import bag, cut_places, cuts, run_cut

SCHEMA = {"k": "string", "at": "timestamp[s]"}
OUT = {"k": "string", "what": "string"}


class Silence:
    """Tells when a key has been quiet for ten seconds."""

    def on_row(self, row, state, timers):
        state["seen"] = state.get("seen", 0) + 1
        timers.clear()
        timers.set(row["at"] + timedelta(seconds=10))

    def on_timer(self, key, at, state, timers):
        yield {"k": key["k"], "what": f"quiet at {at:%S} after {state.pop('seen')}"}


def test_timers_fire_in_event_time_and_can_be_taken_back():
    app = App("t")
    rows = app.source("in", schema=SCHEMA, event_time="at")
    rows.key_by("k").process(Silence, schema=OUT).sink("out")
    data = [{"k": k, "at": at} for k, at in (("a", 0), ("b", 1), ("a", 5), ("a", 30))]
    assert [row["what"] for row in run_rows(app, {"in": data}, batch_rows=1)["out"]] == [
        "quiet at 11 after 1",
        "quiet at 15 after 2",
        "quiet at 40 after 1",
    ]


def test_a_call_that_fails_leaves_state_as_it_was():
    def touchy(row, state, timers):
        state["n"] = state.get("n", 0) + 1
        if row["k"] == "bad":
            raise ValueError("no")
        if row["k"] == "odd":
            state["when"] = datetime(2026, 1, 1)  # not msgpack-able
        return {"k": row["k"], "what": str(state["n"])}

    app = App("t")
    made = app.source("in", schema={"k": "string", "g": "int64"}).key_by("g").process(touchy, schema=OUT)
    made.sink("out")
    made.dead_letters().sink("bad")
    out = run_rows(app, {"in": [{"k": k, "g": 0} for k in ("a", "bad", "odd", "b")]})
    assert [row["what"] for row in out["out"]] == ["1", "2"]
    assert [row["reason"].split(":")[0] for row in out["bad"]] == ["ValueError", "TypeError"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30), cut_places)
@settings(max_examples=40, deadline=None)
def test_order_and_batches_of_rows_within_the_bound_do_not_matter(pairs, places):
    def build(app: App) -> None:
        rows = app.source("in", schema=SCHEMA, event_time="at", lateness="100s")
        rows.key_by("k").process(Silence, schema=OUT).sink("out")

    rows = [{"k": k, "at": at} for k, at in pairs]
    ordered = sorted(rows, key=lambda row: row["at"])
    assert bag(run_cut(build, [("in", part) for part in cuts(rows, places)])["out"]) == bag(
        run_cut(build, [("in", ordered)])["out"]
    )
