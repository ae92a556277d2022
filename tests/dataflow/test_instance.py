"""Tokens align, watermarks merge, ends end: the marks of an operator with several inputs."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataflow.engine.instance import Instance
from dataflow.messages import Data, End, Idle, Token, Watermark
from dataflow.operators.union import Union

SECOND = 1_000_000


def batch(x):
    return Data(pa.record_batch({"x": [x]}))


def texts(outputs):
    return [m.batch.column(0)[0].as_py() if isinstance(m, Data) else m for _, m in outputs]


def two():
    return Instance(Union(), 2, 1)


def test_what_is_behind_a_token_waits_until_the_other_input_has_it():
    union = two()
    assert texts(union.feed(0, batch("a"))) == ["a"]
    assert union.feed(0, Token(1)) == []
    assert union.waiting == {0}
    assert union.feed(0, batch("after")) == []
    assert texts(union.feed(1, batch("b"))) == ["b"]
    assert texts(union.feed(1, Token(1))) == [Token(1)]
    assert texts(union.release()) == ["after"]
    assert union.waiting == set()


def test_nothing_is_read_between_a_token_and_its_release():
    union = two()
    union.feed(0, Token(1))
    union.feed(1, Token(1))
    assert union.feed(1, batch("early")) == []
    assert texts(union.release()) == ["early"]


def test_a_later_epoch_subsumes_an_unfinished_one():
    union = two()
    union.feed(0, Token(1))
    union.feed(0, batch("a"))
    union.feed(0, Token(2))
    assert texts(union.feed(1, Token(2))) == ["a", Token(2)]
    assert union.release() == []


def test_an_input_that_ended_holds_nobody_up():
    union = two()
    union.feed(0, Token(1))
    assert texts(union.feed(1, End())) == [Token(1)]
    assert texts(union.release()) == []
    last = texts(union.feed(0, End()))
    assert isinstance(last[0], Watermark) and last[-1] == End()
    assert union.ended


def test_the_lowest_watermark_counts_and_idle_inputs_do_not():
    union = two()
    assert union.feed(0, Watermark(9 * SECOND)) == []
    assert texts(union.feed(1, Watermark(5 * SECOND))) == [Watermark(5 * SECOND)]
    assert texts(union.feed(1, Idle())) == [Watermark(9 * SECOND)]
    assert texts(union.feed(0, Idle())) == [Idle()]
    assert union.feed(0, Idle()) == []  # said once
    assert union.feed(1, Watermark(6 * SECOND)) == []  # never backwards


moves = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["row", "token"])), max_size=40)


@given(moves)
def test_every_row_leaves_in_the_epoch_it_came_in(steps):
    """However three inputs interleave, between two tokens go out exactly the rows that came in between them."""
    union, epochs, sent = Instance(Union(), 3, 1), [0, 0, 0], {}
    got, current = {}, 0

    def take(outputs):
        nonlocal current
        while outputs:
            for item in texts(outputs):
                if isinstance(item, Token):
                    current = item.epoch
                elif not isinstance(item, (Watermark, End, Idle)):
                    got[item] = current
            outputs = union.release() if isinstance(outputs[-1][1], Token) else []

    number = 0
    for source, what in [*steps, *[(s, "token") for s in range(3) for _ in range(20)]]:
        if what == "token":
            epochs[source] += 1
            take(union.feed(source, Token(epochs[source])))
        else:
            number += 1
            sent[str(number)] = epochs[source]
            take(union.feed(source, batch(str(number))))
    for source in range(3):
        take(union.feed(source, End()))
    assert got == sent
