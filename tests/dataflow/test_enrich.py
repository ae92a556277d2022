import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, AppError
from dataflow.connectors.sinks import Memory
from dataflow.local import run
from dataflow.testing import run_rows
from tests.dataflow.cutting import Step, run_cut

TABLE = {"id": [1, 2, 2], "name": ["one", "two", "TWO"], "level": pa.array([10, 20, None])}


def test_a_static_table_adds_columns_and_its_last_row_of_a_key_counts():
    app = App("t")
    app.source("in", schema={"id": "int64"}).enrich(TABLE, on="id").sink("out")
    assert run_rows(app, {"in": [{"id": 2}, {"id": 1}, {"id": 3}, {"id": None}]})["out"] == [
        {"id": 2, "name": "TWO", "level": None},
        {"id": 1, "name": "one", "level": 10},
        {"id": 3, "name": None, "level": None},
        {"id": None, "name": None, "level": None},
    ]


def test_inner_drops_rows_without_a_match_and_two_columns_make_a_key():
    app = App("t")
    rows = app.source("in", schema={"a": "string", "b": "int64"})
    rows.enrich({"a": ["x", "y"], "b": [1, 2], "c": [True, False]}, on=("a", "b"), how="inner").sink("out")
    assert run_rows(app, {"in": [{"a": "x", "b": 1}, {"a": "x", "b": 2}]})["out"] == [{"a": "x", "b": 1, "c": True}]


def test_a_slowly_changing_table_is_a_stream():
    def build(app: App) -> None:
        prices = app.source("prices", schema={"item": "string", "price": "int64"})
        app.source("sales", schema={"item": "string"}).enrich(prices, on="item").sink("out")

    steps: list[Step] = [
        ("sales", [{"item": "oar"}]),
        ("prices", [{"item": "oar", "price": 5}, {"item": "net", "price": 1}, {"item": "oar", "price": 6}]),
        ("sales", [{"item": "oar"}, {"item": "net"}]),
        ("prices", [{"item": "net", "price": 2}]),
        ("sales", [{"item": "net"}]),
    ]
    assert [row["price"] for row in run_cut(build, steps)["out"]] == [None, 6, 1, 2]


def test_what_does_not_fit_is_said_before_rows_flow():
    rows = App("t").source("in", schema={"id": "string", "name": "string"})
    with pytest.raises(AppError, match='key "id" is string in the stream but int64 in the table'):
        rows.enrich({"id": [1], "x": [1]}, on="id")
    with pytest.raises(AppError, match='already has a column "name"'):
        rows.enrich({"id": ["1"], "name": ["n"]}, on="id")
    with pytest.raises(AppError, match=r'enrich \(table\): no column "id"'):
        rows.enrich({"idd": ["1"]}, on="id")


def as_of(how="left", kind="timestamp[s]"):
    def build(app: App) -> None:
        prices = app.source(
            "prices", schema={"item": "string", "price": "int64", "at": kind}, event_time="at", lateness="1h"
        )
        sales = app.source(
            "sales", schema={"n": "int64", "item": "string", "at": "timestamp[s]"}, event_time="at", lateness="1h"
        )
        made = sales.enrich(prices, on="item", how=how)
        made.select("n", "item", "price").sink("out")
        made.late().sink("late")

    return build


items = st.sampled_from(["oar", "net", None])
a_sale = st.fixed_dictionaries({"item": items, "at": st.integers(-30, 30)})
a_price = st.fixed_dictionaries({"item": items, "price": st.integers(0, 9), "at": st.integers(-30, 30)})


def as_of_by_hand(sales, prices, how):
    out = []
    for sale in sorted(sales, key=lambda sale: sale["at"]):
        seen = [p for p in prices if sale["item"] is not None and p["item"] == sale["item"] and p["at"] <= sale["at"]]
        last = max(enumerate(seen), key=lambda each: (each[1]["at"], each[0]))[1]["price"] if seen else None
        if seen or how == "left":
            out.append({"n": sale["n"], "item": sale["item"], "price": last})
    return out


@given(
    st.lists(a_sale, max_size=20), st.lists(a_price, max_size=20), st.lists(st.booleans(), max_size=40),
    st.sampled_from(["left", "inner"]), st.sampled_from([("timestamp[s]", 1), ("timestamp[us]", 1_000_000)]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_with_event_time_a_row_sees_the_table_as_it_was_then_in_whatever_order_both_come(
    sales, prices, turns, how, unit
):
    sales = [{"n": n, **sale} for n, sale in enumerate(sales)]
    kind, scale = unit
    waiting = {"sales": list(sales), "prices": [{**price, "at": price["at"] * scale} for price in prices]}
    steps: list[Step] = []
    for turn in turns:
        name = "sales" if turn else "prices"
        steps.append((name, waiting[name][:1]))
        waiting[name] = waiting[name][1:]
    got = run_cut(as_of(how, kind), [*steps, *waiting.items()])
    assert got["out"] == as_of_by_hand(sales, prices, how) and got["late"] == []


def test_rows_behind_the_watermark_are_late_and_old_changes_are_forgotten():
    def build(app: App) -> None:
        prices, sales = (
            app.source(name, schema={"item": "int64", column: "int64", "at": "timestamp[s]"}, event_time="at")
            for name, column in (("prices", "price"), ("sales", "n"))
        )
        made = sales.enrich(prices, on="item")
        made.select("n", "price").sink("out")
        made.late().select("n").sink("late")

    steps: list[Step] = [
        ("prices", [{"item": at % 3, "price": at, "at": at} for at in range(5000)]),
        ("sales", [{"item": 1, "n": 0, "at": 4000}, {"item": 1, "n": 1, "at": 4999}]),
        ("sales", [{"item": 1, "n": 2, "at": 50}]),
    ]
    got = run_cut(build, steps)
    assert got["out"] == [{"n": 0, "price": 4000}, {"n": 1, "price": 4999}] and got["late"] == [{"n": 2}]


def test_a_table_that_falls_silent_does_not_hold_up_a_busy_stream():
    """The sales never pause until one of them has come out; the table stays open for as long."""
    out, written = Memory(), threading.Event()

    class Prices:
        def read(self, schema):
            yield [{"item": "oar", "price": 5, "at": 0}]
            assert written.wait(60)

    class Sales:
        def read(self, schema):
            at = 0
            while not written.is_set():
                yield [{"n": at, "item": "oar", "at": at}]
                at += 1
                written.wait(0.001)

    class Told(Memory):
        def write(self, batch):
            super().write(batch)
            written.set()

    app, out = App("t"), Told()
    schema = {"item": "string", "at": "timestamp[s]"}
    prices = app.source("prices", schema={**schema, "price": "int64"}, event_time="at")
    app.source("sales", schema={**schema, "n": "int64"}, event_time="at").enrich(prices, on="item").sink("out")
    run(app, {"prices": Prices(), "sales": Sales()}, {"out": out})
    assert written.is_set() and {row["price"] for row in out.rows} == {5}
