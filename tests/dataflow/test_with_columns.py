from dataflow import App, col, when
from dataflow.testing import run_rows


def test_columns_are_added_and_replaced_in_place():
    app = App("t")
    rows = app.source("in", schema={"x": "int64", "y": "int64"})
    rows.with_columns(x=col("x") * 10, kind=when(col("y") > 0).then(col("y")).otherwise(0)).sink("out")
    assert run_rows(app, {"in": [{"x": 1, "y": -5}, {"x": 2, "y": 5}]})["out"] == [
        {"x": 10, "y": -5, "kind": 0},
        {"x": 20, "y": 5, "kind": 5},
    ]
