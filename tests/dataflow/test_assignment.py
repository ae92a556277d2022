"""An assignment is the same bytes for everybody, and nothing else passes for one."""

from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow import App, col, count, tumbling
from dataflow.hosting.assignment import (
    Assignment,
    AssignmentError,
    EdgeId,
    InstanceId,
    Place,
    assigned,
    sink_instance,
    sink_name,
)
from dataflow.plan import make_plan
from overlay.ids import Key, PeerId

instances = st.builds(InstanceId, st.integers(-9, 9), st.integers(0, 9))
peers = st.integers(0, 2**160 - 1).map(lambda it: PeerId(Key(it)))
assignments = st.builds(
    lambda app, generation, places: assigned(app, generation, [Place(it, *at) for it, at in places.items()]),
    st.text("0123456789abcdef", min_size=1, max_size=64),
    st.integers(0, 2**64 - 1),
    st.dictionaries(instances, st.tuples(peers, st.integers(0, 2**64 - 1)), max_size=20),
)


@given(assignments)
def test_what_was_packed_is_read_back(assignment):
    assert Assignment.unpack(assignment.pack()) == assignment


@given(st.binary(max_size=80))
def test_any_bytes_are_an_assignment_or_an_assignment_error(raw):
    with suppress(AssignmentError):
        assert isinstance(Assignment.unpack(raw), Assignment)


HERE = [0, 0, b"\0" * 20, 0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["", 1, []], "app's id"),
        (["ab", -1, []], "generation"),
        (["ab", True, []], "generation"),
        (["ab", 1, [[0, 0, b"", 0]]], "peer's id"),
        (["ab", 1, [[0, -1, b"\0" * 20, 0]]], "an index"),
        (["ab", 1, [HERE, HERE]], "each once"),
        (["ab", 1, [[1, 0, b"\0" * 20, 0], HERE]], "sorted"),
        (["ab", 1], "a list of 3"),
    ],
)
def test_an_error_says_what_is_wrong(value, words):
    with pytest.raises(AssignmentError, match=words):
        Assignment.unpack(msgpack.packb(value))


def test_every_copy_of_a_writer_has_an_edge_to_every_copy_of_its_reader():
    app = App("rooms")
    readings = app.source("readings", schema={"room": "string", "at": "timestamp[ms]"}, event_time="at")
    readings.filter(col("room") != "x").key_by("room").window(tumbling("10s")).aggregate(n=count()).sink("out")
    plan = make_plan(app.graph)
    copies = {0: 2, 1: 1, 2: 2, -1: 1}
    assignment = assigned(
        "ab", 1, [Place(InstanceId(it, at), PeerId(Key(at)), 0) for it, n in copies.items() for at in range(n)]
    )
    edges = assignment.edges(plan)
    assert len(edges) == 2 * 1 + 1 * 2 + 2 * 1
    assert EdgeId(InstanceId(2, 1), 0, sink_instance(plan, "out"), 0) in edges
    assert sink_name(plan, InstanceId(-1, 0)) == "out"
