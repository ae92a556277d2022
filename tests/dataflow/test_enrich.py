import pyarrow as pa
import pytest

from dataflow import App, AppError
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
