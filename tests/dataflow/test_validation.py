"""Every mistake is one sentence with the operator, the column and the line."""

import re
from pathlib import Path

import pytest

from dataflow import App, AppError, col, count, count_window, session, sliding, tumbling
from dataflow.graph import Edge, Node, check

SCHEMA = {"room": "string", "celsius": "float64", "at": "timestamp[ms]"}


def readings(app=None):
    return (app or App("t")).source("in", schema=SCHEMA, event_time="at")


MISTAKES = {
    'filter: no column "celcius"; did you mean "celsius"?': lambda: readings().filter(col("celcius") > 1),
    "filter: col(celsius) is double, not true or false": lambda: readings().filter(col("celsius")),
    "filter: 3 is not an expression": lambda: readings().filter(3),
    'select: no column "rom"; did you mean "room"?': lambda: readings().select("rom"),
    "with_columns: the expression does not fit its columns": lambda: readings().with_columns(x=col("room") * 2.5),
    'key_by: no column "x"': lambda: readings().key_by("x"),
    "window: say first which rows belong together": lambda: readings().window(tumbling("1s")),
    "process: keeps state, so it needs a key": lambda: readings().process(print, schema={}),
    "distinct: keeps state": lambda: readings().distinct(),
    "join: keeps state": lambda: readings().join(readings()),
    "window: '10s' is not a window": lambda: readings().key_by("room").window("10s"),
    "aggregate: name at least one result": lambda: readings().key_by().window(tumbling("1s")).aggregate(),
    'aggregate: "x" is not an aggregate': lambda: readings().key_by().window(tumbling("1s")).aggregate(x=3),
    'aggregate: "x" uses median()': lambda: (
        readings().key_by().window(tumbling("1s")).aggregate(x=col("celsius").median())
    ),
    'aggregate: "x" asks for the sum of a string column': lambda: (
        readings().key_by().window(tumbling("1s")).aggregate(x=col("room").sum())
    ),
    "aggregate: the stream has no event time": lambda: (
        readings().select("room").key_by("room").window(tumbling("1s")).aggregate(n=count())
    ),
    "aggregate: window 10us is finer than the event time": lambda: (
        readings().key_by().window(tumbling("10us")).aggregate(n=count())
    ),
    'aggregate: two result columns are named "room"': lambda: (
        readings().key_by("room").window(tumbling("1s")).aggregate(room=count())
    ),
    "source \"s\": lateness 'soon' is not a duration": lambda: App("t").source("s", schema=SCHEMA, lateness="soon"),
    'source "s": column "x" has unknown type "flot64"; did you mean "float64"?': lambda: App("t").source(
        "s", schema={"x": "flot64"}
    ),
    'source "s": event_time: no column "att"': lambda: App("t").source("s", schema=SCHEMA, event_time="att"),
    'source "s": event time "room" is string': lambda: App("t").source("s", schema=SCHEMA, event_time="room"),
    "map: 3 is not a function": lambda: readings().map(3),
    "map: parallelism 0 is not between": lambda: readings().map(dict, parallelism=0),
    "top_k: 0 is not a positive number": lambda: readings().key_by().window(tumbling("1s")).top_k(0, by="celsius"),
    "filter has no late": lambda: readings().filter(col("celsius") > 1).late(),
    "join: give either window= or within=": lambda: readings().key_by("room").join(readings().key_by("room")),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_names_the_operator_and_the_line(message):
    with pytest.raises(AppError) as caught:
        MISTAKES[message]()
    assert message in str(caught.value)
    found = re.match(r"(.*?):(\d+): ", str(caught.value))
    assert found is not None
    file, line = found.groups()
    assert Path(file).name == "test_validation.py" and int(line) > 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tumbling("10 bananas"), "window size '10 bananas' is not a duration"),
        (lambda: tumbling("0s"), "window size '0s' is zero"),
        (lambda: tumbling("-1s"), "negative"),
        (lambda: sliding("1s", every="2s"), "would leave rows out"),
        (lambda: session(""), "not a duration"),
        (lambda: count_window(0), "positive number of rows"),
        (lambda: App(""), "an app needs a name"),
    ],
)
def test_a_bad_window_is_a_sentence(make, message):
    with pytest.raises(AppError, match=message):
        make()


def test_an_app_needs_ends_with_names_of_their_own():
    app = App("t")
    with pytest.raises(AppError, match="has no source"):
        app.validate()
    rows = readings(app)
    with pytest.raises(AppError, match="has no sink; end a stream"):
        app.validate()
    rows.sink("out")
    rows.filter(col("celsius") > 1).sink("out")
    with pytest.raises(AppError, match='two sinks are named "out"'):
        app.validate()


def test_a_graph_that_feeds_itself_is_refused():
    app = App("t")
    readings(app).filter(col("celsius") > 1).sink("out")
    graph = app.graph
    loop = graph.nodes[1]
    graph.nodes[1] = Node(loop.id, loop.name, loop.draft, (Edge(1),), loop.place)
    with pytest.raises(AppError, match="feeds itself"):
        check(graph, "t")
