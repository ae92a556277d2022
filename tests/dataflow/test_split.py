from dataflow import App, col
from dataflow.testing import run_rows


def test_every_row_goes_exactly_one_way():
    app = App("t")
    yes, no = app.source("in", schema={"x": "int64"}).split(col("x") > 0)
    yes.sink("yes")
    no.sink("no")
    out = run_rows(app, {"in": [{"x": 1}, {"x": 0}, {"x": None}]})
    assert out == {"yes": [{"x": 1}], "no": [{"x": 0}, {"x": None}]}
