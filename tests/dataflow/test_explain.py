from dataflow import App, col, count, tumbling
from dataflow.explain import explain, explain_dot
from dataflow.plan import make_plan


def hot_rooms():
    app = App("hot-rooms")
    rows = app.source("in", schema={"room": "string", "c": "float64", "at": "timestamp[ms]"}, event_time="at")
    hot = rows.filter(col("c") > 30).with_columns(f=col("c") * 1.8 + 32).select("room", "f", "at")
    made = hot.key_by("room").window(tumbling("10s")).aggregate(n=count())
    made.sink("alerts")
    made.late().sink("late")
    return app


def test_neighbours_without_state_are_one_stage():
    plan = make_plan(hot_rooms().graph)
    assert [stage.name for stage in plan.stages] == ["in", "filter + with_columns + select", "aggregate"]


def test_a_stream_that_two_read_is_not_fused_behind():
    app = App("t")
    rows = app.source("in", schema={"x": "int64"}).filter(col("x") > 0)
    rows.filter(col("x") > 1).sink("a")
    rows.filter(col("x") > 2).sink("b")
    assert [stage.name for stage in make_plan(app.graph).stages] == ["in", "filter", "filter", "filter"]


def test_the_text_says_stages_state_and_sinks():
    text = explain(hot_rooms())
    assert "app hot-rooms: 3 stages, 2 sinks" in text
    assert "stage 2* <- 1" in text and "aggregate tumbling 10s, n=len by room" in text
    assert "sink late <- 2.late: room string, f double, at timestamp[ms]" in text


def test_the_picture_is_a_digraph():
    dot = explain_dot(hot_rooms())
    assert dot.startswith("digraph app {") and 's2 -> o1 [label="late"];' in dot and dot.endswith("}")
