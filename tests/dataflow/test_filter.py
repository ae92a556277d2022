from dataflow import App, col
from dataflow.batches import Row
from dataflow.testing import run_rows


def test_rows_that_are_true_stay_and_null_is_not_true():
    app = App("t")
    app.source("in", schema={"x": "int64", "s": "string"}).filter((col("x") > 1) & (col("s") == "a")).sink("out")
    rows: list[Row] = [
        {"x": 1, "s": "a"},
        {"x": 2, "s": "a"},
        {"x": 3, "s": "b"},
        {"x": None, "s": "a"},
        {"x": 4, "s": None},
    ]
    assert run_rows(app, {"in": rows})["out"] == [{"x": 2, "s": "a"}]


def test_filters_in_a_row_are_fused_and_any_expression_works():
    app = App("t")
    rows = app.source("in", schema={"x": "int64"})
    rows.filter(col("x") % 2 == 0).filter(~col("x").is_in([4])).filter(col("x").abs() < 10).sink("out")
    out = run_rows(app, {"in": [{"x": x} for x in (1, 2, 4, 6, 20)]})["out"]
    assert out == [{"x": 2}, {"x": 6}]
