import pyarrow.compute as pc
import pytest

from dataflow import App, AppError
from dataflow.testing import run_rows


def test_an_arrow_function_of_a_batch_is_cast_to_its_schema():
    app = App("t")
    rows = app.source("in", schema={"x": "int64"})
    rows.map_batches(lambda b: {"x": pc.multiply(b.column("x"), 2)}, schema={"x": "float64"}).sink("out")
    assert run_rows(app, {"in": [{"x": 1}]})["out"] == [{"x": 2.0}]


def test_a_missing_column_names_the_line():
    app = App("t")
    app.source("in", schema={"x": "int64"}).map_batches(lambda b: {"y": b.column("x")}).sink("out")
    with pytest.raises(AppError, match=r"test_map_batches.py:\d+: map_batches: KeyError: 'x'"):
        run_rows(app, {"in": [{"x": 1}]})
