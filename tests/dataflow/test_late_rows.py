"""Which rows are late depends on the rows before them, never on how they were cut into batches."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, col, count, session, sliding, tumbling
from dataflow.connectors.generator import Generator
from dataflow.connectors.sinks import Memory
from dataflow.local import run
from dataflow.testing import run_rows
from tests.dataflow.cutting import bag, cut_places, cuts, run_cut

SCHEMA = {"n": "int64", "k": "string", "x": "int64", "at": "timestamp[ms]"}


def source(app, kind="timestamp[ms]"):
    return app.source("in", schema={**SCHEMA, "at": kind}, event_time="at", lateness="2s")


def results(window, allowed="0s", kind="timestamp[ms]"):
    def build(app):
        rows = source(app, kind).filter(col("x") > 2).with_columns(y=col("x") + 1)
        made = rows.key_by("k").window(window, allowed_lateness=allowed)
        sums = made.aggregate(n=count(), total=col("y").sum(), first=col("n").first(), last=col("n").last())
        sums.sink("out")
        sums.late().sink("late")
        # The late rows have a past of their own: so do their windows, and those that come too late even there.
        again = sums.late().key_by("k").window(tumbling("7s"), allowed_lateness="30s").aggregate(n=count())
        again.sink("again")
        again.late().sink("too_late")

    return build


def ranked(app):
    made = source(app).key_by("k").window(sliding("10s", every="5s"), allowed_lateness="3s").top_k(2, by="x")
    made.sink("out")
    made.late().sink("late")


def firsts(app):
    made = source(app).key_by("k").distinct(within="6s")
    made.sink("out")
    made.late().sink("late")
    made.key_by("k").window(tumbling("5s")).aggregate(n=count()).sink("sums")


def processed(app):
    def total(row, state, timers):
        state["n"] = state.get("n", 0) + row["x"]
        return {"k": row["k"], "n": row["n"], "total": state["n"]}

    made = source(app).key_by("k").process(total, schema={"k": "string", "n": "int64", "total": "int64"})
    made.sink("out")
    made.late().sink("late")


def mapped(app):
    rows = source(app).map(lambda row: row)
    even, odd = rows.split(col("x") % 2 == 0)
    for name, part in (("even", even), ("odd", odd)):
        made = part.key_by("k").window(tumbling("10s")).aggregate(n=count())
        made.sink(name)
        made.late().sink(f"late {name}")


def multiplied(app):
    """A function that fails on some rows, drops and doubles others, and makes some that do not fit."""

    def some(row):
        if row["x"] == 5:
            raise ValueError("five")
        return [{**row, "x": "seven" if row["x"] == 7 else row["x"]}] * (row["x"] % 4)

    rows = source(app).flat_map(some)
    made = rows.key_by("k").window(tumbling("10s")).aggregate(n=count())
    made.sink("out")
    made.late().sink("late")
    rows.dead_letters().sink("bad")


def batched(app):
    """A function that drops rows and doubles others, so that no row can be found by its position."""

    def some(batch):
        x = batch.column("x").to_pylist()
        return batch.take(pa.array([at for at, each in enumerate(x) for _ in range(each % 3)], pa.int64()))

    made = source(app).map_batches(some).key_by("k").window(sliding("10s", every="5s")).aggregate(n=count())
    made.sink("out")
    made.late().sink("late")


def diamond(app):
    even, odd = source(app).split(col("x") % 2 == 0)
    made = even.union(odd).key_by("k").window(tumbling("10s")).aggregate(n=count())
    made.sink("out")
    made.late().sink("late")


def known(app):
    table = pa.table({"k": ["a", "c"], "floor": [1, 2]})
    made = source(app).enrich(table, on="k", how="inner").key_by("k").window(tumbling("5s")).aggregate(n=count())
    made.sink("out")
    made.late().sink("late")


APPS = {
    "tumbling": results(tumbling("10s")),
    "tumbling, microseconds": results(tumbling("10s"), kind="timestamp[us]"),
    "tumbling, allowed": results(tumbling("10s"), "4s"),
    "tumbling, offset": results(tumbling("10s", offset="3s"), "1s"),
    "sliding": results(sliding("10s", every="3s")),
    "sliding, allowed": results(sliding("10s", every="5s"), "4s"),
    "session": results(session("3s")),
    "session, allowed": results(session("3s"), "2s"),
    "session, wide": results(session("9s")),
    "session, wider than any delay": results(session("70s"), "1s"),
    "map_batches": batched,
    "top_k": ranked,
    "distinct": firsts,
    "process": processed,
    "map and split": mapped,
    "flat_map": multiplied,
    "union": diamond,
    "enrich": known,
}

# Time goes on; every third row or so is behind, some by a little and some by far.
steps = st.lists(
    st.tuples(
        st.integers(0, 3_000), st.sampled_from([0, 0, 0, 1_000, 2_500, 6_000, 15_000, 60_000]), st.integers(0, 9)
    ),
    max_size=50,
)


def readings(moves):
    now, out = 0, []
    for n, (step, behind, x) in enumerate(moves):
        now += step
        out.append({"n": n, "k": "abc"[x % 3], "x": x, "at": now - behind})
    return out


@pytest.mark.parametrize("app", APPS)
@given(moves=steps, places=cut_places)
@settings(max_examples=40, deadline=None)
def test_any_cutting_gives_what_row_by_row_gives(app, moves, places):
    rows = readings(moves)
    if "micro" in app:
        rows = [{**row, "at": row["at"] * 1000} for row in rows]
    one_by_one = run_cut(APPS[app], [("in", [row]) for row in rows])
    for parts in ([rows], cuts(rows, places)):
        got = run_cut(APPS[app], [("in", part) for part in parts])
        assert {name: bag(out) for name, out in got.items()} == {name: bag(out) for name, out in one_by_one.items()}


def two_sources(app):
    return (
        app.source(name, schema={**SCHEMA, "at": kind}, event_time="at", lateness="2s")
        for name, kind in (("in", "timestamp[ms]"), ("other", "timestamp[ms]"))
    )


def unioned(app):
    rows, others = two_sources(app)
    both = rows.filter(col("x") > 2).union(others)
    for name, window in (("tumbling", tumbling("10s")), ("sliding", sliding("10s", every="5s"))):
        made = both.key_by("k").window(window).aggregate(n=count())
        made.sink(name)
        made.late().sink(f"late {name}")


def paired(app):
    rows, others = two_sources(app)
    made = rows.key_by("k").join(others.key_by("k"), window=tumbling("10s"))
    made.select("n", "n_right").sink("out")
    made.late().sink("late")


def near(app):
    rows, others = two_sources(app)
    rows.key_by("k").join(others.key_by("k"), within=("-5s", "3s")).select("n", "n_right").sink("out")


def as_of(app):
    rows, others = two_sources(app)
    table = others.select("k", "at", seen=col("n"))
    made = rows.enrich(table, on="k")
    made.select("n", "seen").sink("out")
    made.late().sink("late")


def latest(app):
    rows, others = two_sources(app)
    table = others.select("k", seen=col("n"))
    made = rows.enrich(table, on="k", how="inner").key_by("k").window(tumbling("5s")).aggregate(n=count())
    made.sink("out")
    made.late().sink("late")


MEETINGS = {"union": unioned, "join": paired, "interval": near, "as of": as_of, "latest": latest}


@pytest.mark.parametrize("app", MEETINGS)
@given(moves=steps, others=steps, places=cut_places, switches=st.lists(st.booleans(), max_size=12))
@settings(max_examples=40, deadline=None)
def test_where_sources_meet_any_cutting_between_two_turns_gives_the_same(app, moves, others, places, switches):
    """Whose turn it is decides what the other watermark is; how the rows of one turn are cut does not matter."""
    parts, other_parts = cuts(readings(moves), places), cuts(readings(others), places)
    turns = []
    for first in [*switches, *[True] * len(parts), *[False] * len(other_parts)]:
        name, waiting = ("in", parts) if first else ("other", other_parts)
        if waiting:
            turns.append((name, waiting.pop(0)))
    one_by_one = run_cut(MEETINGS[app], [(name, [row]) for name, rows in turns for row in rows])
    got = run_cut(MEETINGS[app], turns)
    assert {name: bag(out) for name, out in got.items()} == {name: bag(out) for name, out in one_by_one.items()}


def many_late(rows):
    """Like examples/rooms_data.py: four rows a second, one in seventy a minute too late."""
    rng = random.Random(1)
    return [
        {"n": n, "k": rng.choice("abcd"), "x": n % 9, "at": n * 250 - (60_000 if n % 70 == 0 else rng.randrange(1500))}
        for n in range(rows)
    ]


def by_hand(rows):
    """A plain loop: the results of windows of ten seconds, and the rows whose window was over."""
    highest, late = -(10**12), []
    sums: Counter[tuple[str, int]] = Counter()
    for row in rows:
        start = row["at"] // 10_000 * 10_000
        if row["x"] > 2:
            if start + 10_000 <= highest - 2_000:
                late.append(row["n"])
            else:
                sums[row["k"], start] += 1
        highest = max(highest, row["at"])
    return sums, late


@pytest.mark.parametrize("threads", [True, False])
def test_hundreds_of_late_rows_in_one_batch_are_all_found(threads):
    rows = many_late(40_000)
    sums, late = by_hand(rows)
    app, out, late_out = App("t"), Memory(), Memory()
    made = source(app).filter(col("x") > 2).key_by("k").window(tumbling("10s")).aggregate(n=count())
    made.select("k", "n").sink("out")
    made.late().sink("late")
    summary = run(app, {"in": Generator([rows])}, {"out": out, "late": late_out}, threads=threads)
    assert [row["n"] for row in late_out.rows] == late and summary.late == len(late) > 200
    assert sorted((row["k"], row["n"]) for row in out.rows) == sorted((k, n) for (k, _), n in sums.items())


def test_rows_behind_the_watermark_still_reach_those_who_have_no_windows():
    app = App("t")
    source(app).filter(col("x") >= 0).sink("out")
    rows = many_late(500)
    assert [row["n"] for row in run_rows(app, {"in": rows})["out"]] == list(range(500))
