from dataflow import App
from dataflow.testing import run_rows


def test_a_function_of_a_row():
    app = App("t")
    app.source("in", schema={"x": "int64"}).map(lambda row: {"y": str(row["x"])}, schema={"y": "string"}).sink("out")
    assert run_rows(app, {"in": [{"x": 1}, {"x": 2}]})["out"] == [{"y": "1"}, {"y": "2"}]


def test_a_row_that_fails_or_does_not_fit_is_a_dead_letter_and_the_rest_goes_on():
    app = App("t")
    made = app.source("in", schema={"x": "int64"}).map(lambda row: {"x": "no" if row["x"] == 2 else 1 // row["x"]})
    made.sink("out")
    made.dead_letters().select("reason").sink("bad")
    out = run_rows(app, {"in": [{"x": 1}, {"x": 0}, {"x": 2}]})
    assert out["out"] == [{"x": 1}]
    assert [row["reason"].split(":")[0] for row in out["bad"]] == ["ZeroDivisionError", "ArrowInvalid"]
