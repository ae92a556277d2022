from dataflow import App
from dataflow.testing import run_rows


def test_none_one_or_many_rows():
    app = App("t")
    rows = app.source("in", schema={"n": "int64"})
    rows.flat_map(lambda row: [{"n": i} for i in range(row["n"])]).sink("out")
    assert run_rows(app, {"in": [{"n": 0}, {"n": 1}, {"n": 2}]})["out"] == [{"n": 0}, {"n": 0}, {"n": 1}]


def test_a_generator_that_fails_half_way_gives_nothing():
    def half(row):
        yield {"n": row["n"]}
        raise RuntimeError("half")

    app = App("t")
    made = app.source("in", schema={"n": "int64"}).flat_map(half)
    made.sink("out")
    made.dead_letters().sink("bad")
    out = run_rows(app, {"in": [{"n": 1}]})
    assert out["out"] == [] and out["bad"][0]["reason"] == "RuntimeError: half"
