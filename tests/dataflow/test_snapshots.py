"""The laws of state, for every operator that keeps any."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, AppError, col, count, count_window, session, sliding, tumbling
from dataflow.state.snapshot import HASH_END, KeyRange, Snapshot, Stateful, even_ranges
from tests.dataflow.cutting import Session, bag

SCHEMA = {"k": "string", "x": "int64", "at": "timestamp[s]"}


def source(app: App, name: str = "in", **more: Any) -> Any:
    return app.source(name, schema=SCHEMA | more, event_time="at", lateness="3s")


def tumbling_aggregate(app: App) -> None:
    made = source(app).key_by("k").window(tumbling("10s"))
    made.aggregate(n=count(), m=col("x").mean(), f=col("x").first(), l=col("k").last(), s=col("x").std()).sink("out")


def sliding_aggregate(app: App) -> None:
    source(app).key_by("k", "x").window(sliding("20s", every="2s")).aggregate(n=count(), m=col("x").max()).sink("out")


def global_aggregate(app: App) -> None:
    source(app).key_by().window(tumbling("5s")).aggregate(n=col("x").sum()).sink("out")


def session_aggregate(app: App) -> None:
    source(app).key_by("x").window(session("6s")).aggregate(n=count(), m=col("x").min()).sink("out")


def count_aggregate(app: App) -> None:
    source(app).key_by("k").window(count_window(3)).aggregate(n=count(), t=col("x").sum()).sink("out")


def distinct(app: App) -> None:
    source(app).key_by("k", "x").distinct(within="7s").sink("out")


def distinct_for_ever(app: App) -> None:
    source(app).key_by("k").distinct().sink("out")


def top_k(app: App) -> None:
    source(app).key_by("k").window(sliding("10s", every="5s")).top_k(2, by="x").sink("out")


def window_join(app: App) -> None:
    left, right = source(app), source(app, "other")
    left.key_by("k").join(right.key_by("k"), window=tumbling("10s"), how="left").sink("out")


def interval_join(app: App) -> None:
    left, right = source(app), source(app, "other")
    left.key_by("k").join(right.key_by("k"), within=("-4s", "6s")).sink("out")


def enrich(app: App) -> None:
    changes = app.source("other", schema={"k": "string", "note": "int64"})
    source(app).enrich(changes, on="k").sink("out")


def enrich_as_of(app: App) -> None:
    changes = app.source("other", schema={"k": "string", "note": "int64", "at": "timestamp[s]"}, event_time="at")
    source(app).enrich(changes, on="k").sink("out")


class Alarm:
    def on_row(self, row: dict[str, Any], state: dict[str, Any], timers: Any) -> Any:
        state["n"] = state.get("n", 0) + 1
        timers.set(row["at"])
        if state["n"] == 3:
            state.clear()
            timers.clear()
        return {"k": row["k"], "n": state.get("n", 0)}

    def on_timer(self, key: dict[str, Any], at: Any, state: dict[str, Any], timers: Any) -> Any:
        return {"k": key["k"], "n": -state.get("n", 0)}


def process(app: App) -> None:
    source(app).key_by("k").process(Alarm, schema={"k": "string", "n": "int64"}).sink("out")


EVERY = [
    tumbling_aggregate, sliding_aggregate, global_aggregate, session_aggregate, count_aggregate, distinct,
    distinct_for_ever, top_k, window_join, interval_join, enrich, enrich_as_of, process,
]  # fmt: skip

row = st.fixed_dictionaries(
    {"k": st.sampled_from(["a", "bb", "ccc", None]), "x": st.integers(0, 3), "at": st.integers(-20, 60)}
)
step = st.tuples(st.sampled_from(["in", "other"]), st.lists(row, min_size=1, max_size=8))
steps_strategy = st.lists(step, min_size=1, max_size=6)


def feed(running: Session, name: str, rows: list[dict[str, Any]]) -> None:
    if name in running.schemas:
        wanted = running.schemas[name].names
        running.feed(name, [{column: each.get(column, each["x"]) for column in wanted} for each in rows])


def contents(operators: list[Stateful]) -> list[Any]:
    found = []
    for operator in operators:
        snapshot = Snapshot.decode(operator.split(KeyRange()))
        found.append((snapshot.rows(), snapshot.marks))
    return found


@pytest.mark.parametrize("build", EVERY, ids=lambda build: build.__name__)
@given(steps=steps_strategy, deltas=st.lists(st.booleans(), min_size=6, max_size=6))
@settings(max_examples=25, deadline=None)
def test_deltas_over_a_base_are_the_full_state_and_a_restored_app_goes_on_alike(build, steps, deltas):
    steady, moved = Session(build), Session(build)
    saved: list[tuple[bytes, list[bytes]]] = [(operator.snapshot_base(), []) for operator in moved.stateful()]
    for (name, rows), is_delta in zip(steps, deltas, strict=False):
        feed(steady, name, rows)
        feed(moved, name, rows)
        if is_delta:
            for (_, chain), operator in zip(saved, moved.stateful(), strict=True):
                chain.append(operator.snapshot_delta())
        else:
            saved = [(operator.snapshot_base(), []) for operator in moved.stateful()]
        restored = moved.fresh()
        for operator, (base, chain) in zip(restored, saved, strict=True):
            operator.restore(base, chain)
        assert contents(restored) == contents(moved.stateful())
        moved.replace(restored)
    assert bag(moved.end()["out"]) == bag(steady.end()["out"])


@pytest.mark.parametrize("build", EVERY, ids=lambda build: build.__name__)
@given(steps=steps_strategy, places=st.lists(st.integers(1, HASH_END - 1), max_size=3))
@settings(max_examples=20, deadline=None)
def test_any_split_then_merge_is_the_same_state(build, steps, places):
    steady, moved = Session(build), Session(build)
    for at, (name, rows) in enumerate(steps):
        feed(steady, name, rows)
        feed(moved, name, rows)
        if at == len(steps) // 2:
            edges = sorted({0, *places, HASH_END})
            ranges = [KeyRange(low, high) for low, high in pairwise(edges)]
            merged = moved.fresh()
            for operator, old in zip(merged, moved.stateful(), strict=True):
                operator.merge([old.split(each) for each in ranges])
            assert contents(merged) == contents(moved.stateful())
            moved.replace(merged)
    assert bag(moved.end()["out"]) == bag(steady.end()["out"])


def test_a_delta_holds_only_what_changed():
    running = Session(tumbling_aggregate)
    running.feed("in", [{"k": f"k{n}", "x": n, "at": 1} for n in range(100)])
    operator = running.stateful()[1]
    operator.snapshot_base()
    running.feed("in", [{"k": "k7", "x": 1, "at": 2}])
    delta = Snapshot.decode(operator.snapshot_delta())
    assert [row["key0"] for row in delta.tables["panes"].to_pylist()] == ["k7"]


def test_parts_are_disjoint_and_complete():
    running = Session(distinct_for_ever)
    running.feed("in", [{"k": f"k{n}", "x": n, "at": 1} for n in range(1000)])
    operator = running.stateful()[1]
    sizes = [Snapshot.decode(operator.split(part)).tables["keys"].num_rows for part in even_ranges(4)]
    assert sum(sizes) == 1000 and min(sizes) > 150


def test_foreign_bytes_are_refused_in_a_sentence():
    operator = Session(distinct).stateful()[1]
    with pytest.raises(AppError, match="not a snapshot"):
        operator.restore(b"\x00rubbish")
    with pytest.raises(AppError, match="a snapshot of Process was given to Distinct"):
        operator.restore(Session(process).stateful()[1].snapshot_base())
