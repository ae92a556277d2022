import pyarrow as pa

from dataflow import App, col, lit
from dataflow.testing import run_rows


def test_columns_are_kept_ordered_renamed_and_computed():
    app = App("t")
    rows = app.source("in", schema={"a": "int64", "b": "string", "c": "float64"})
    made = rows.select("c", name=col("b").str.to_uppercase(), plus=col("a") + 1, one=lit(1))
    made.sink("out")
    assert made.schema.names == ["c", "name", "plus", "one"]
    out = run_rows(app, {"in": [{"a": 1, "b": "x", "c": 0.5}, {"a": 2, "b": None, "c": None}]})["out"]
    assert out == [{"c": 0.5, "name": "X", "plus": 2, "one": 1}, {"c": None, "name": None, "plus": 3, "one": 1}]


def test_results_have_the_type_that_was_derived_before_rows_flowed():
    app = App("t")
    rows = app.source("in", schema={"a": "int32"})
    made = rows.select(half=col("a") / 2, text=col("a").cast(__import__("narwhals").String))
    assert made.schema.field("half").type == pa.float64()
    assert pa.types.is_string(made.schema.field("text").type) or pa.types.is_large_string(
        made.schema.field("text").type
    )


def test_event_time_is_lost_with_its_column():
    rows = App("t").source("in", schema={"a": "int64", "at": "timestamp[ms]"}, event_time="at")
    assert rows.select("a", "at").flow.time is not None
    assert rows.select("a").flow.time is None
