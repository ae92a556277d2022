import pytest

from dataflow import App, AppError, count, tumbling
from dataflow.batches import from_rows
from dataflow.engine.executor import Executor
from dataflow.messages import Data, Idle
from dataflow.plan import make_plan
from dataflow.testing import run_rows

SCHEMA = {"k": "string", "at": "timestamp[s]"}


def test_rows_of_both_and_the_slower_watermark_counts():
    app = App("t")
    a, b = (app.source(name, schema=SCHEMA, event_time="at") for name in "ab")
    a.union(b).key_by("k").window(tumbling("10s")).aggregate(n=count()).select("k", "n").sink("out")
    rows = {"a": [{"k": "x", "at": 1}, {"k": "x", "at": 100}], "b": [{"k": "x", "at": 2}]}
    assert run_rows(app, rows)["out"] == [{"k": "x", "n": 2}, {"k": "x", "n": 1}]


def test_an_idle_source_does_not_stall_the_other():
    app = App("t")
    a, b = (app.source(name, schema=SCHEMA, event_time="at") for name in "ab")
    united = a.union(b)
    united.key_by("k").window(tumbling("10s")).aggregate(n=count()).sink("out")
    executor = Executor(make_plan(app.graph))
    batch = from_rows([{"k": "x", "at": 1}, {"k": "x", "at": 100}], united.schema)
    assert not [m for _, m in executor.feed("a", Data(batch)) if isinstance(m, Data)]
    fired = [m.batch.to_pylist() for _, m in executor.feed("b", Idle()) if isinstance(m, Data)]
    assert [row["n"] for rows in fired for row in rows] == [1]
    # It comes back: its rows for closed windows are late, newer ones are not.
    back = executor.feed("b", Data(from_rows([{"k": "x", "at": 3}, {"k": "x", "at": 101}], united.schema)))
    assert not [m for _, m in back if isinstance(m, Data)]
    assert executor.side_rows["late"] == 1


def test_streams_must_be_alike():
    app = App("t")
    a, b = app.source("a", schema={"x": "int64"}), app.source("b", schema={"x": "string"})
    with pytest.raises(AppError, match=r"union: the streams differ: \(x int64\) and \(x string\)"):
        a.union(b)
