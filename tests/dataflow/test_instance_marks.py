"""What an instance knows beside its operator's state goes with a snapshot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow import AppError
from dataflow.engine.instance import Instance
from dataflow.messages import End, Idle, Token, Watermark
from dataflow.operators.union import Union

message = st.one_of(st.integers(0, 9).map(Watermark), st.just(Idle()), st.just(End()))
feeding = st.lists(st.tuples(st.integers(0, 2), message), max_size=20)


def three() -> Instance:
    return Instance(Union(), 3, 1)


def restored(old: Instance, channels: int | list[int] = 3) -> Instance:
    new = Instance(Union(), channels, 1)
    new.restore_marks(old.marks())
    return new


@given(feeding, feeding)
def test_a_restored_instance_says_what_the_old_one_would_have_said(before, after):
    old, ended = three(), set()
    for at, it in before:
        if at not in ended:
            old.feed(at, it)
            ended |= {at} if it == End() else set()
    for at in range(3):
        if at not in ended:
            old.feed(at, Token(1))
    new = restored(old)
    old.release()
    for at, it in after:
        if at not in ended:
            assert new.feed(at, it) == old.feed(at, it)
            ended |= {at} if it == End() else set()
    assert (new.ended, new.waiting) == (old.ended, old.waiting)


def test_a_watermark_that_was_said_is_not_said_again_and_others_are_still_known():
    old = Instance(Union(), 2, 1)
    old.feed(0, Watermark(9))
    assert old.feed(1, Watermark(5)) == [(0, Watermark(5))]
    new = restored(old, 2)
    assert new.feed(1, Watermark(5)) == []
    assert new.feed(1, Watermark(7)) == [(0, Watermark(7))]


def test_an_end_that_is_heard_twice_is_said_once():
    old = Instance(Union(), 1, 1)
    assert old.feed(0, End())[-1] == (0, End())
    assert restored(old, 1).feed(0, End()) == []


def test_an_input_with_other_channels_begins_with_the_least_that_was_known():
    old = Instance(Union(), [0, 0, 1], 1)
    for at, it in enumerate([Watermark(9), Watermark(4), Watermark(6)]):
        old.feed(at, it)
    new = restored(old, [0, 1, 1])
    assert new.feed(0, Watermark(8)) == [(0, Watermark(6))]  # both channels of input 1 are known to be at 6
    assert new.feed(1, End()) == [] and not new.ended
    old.feed(0, End())
    fewer = restored(old, [0, 1])
    assert fewer.feed(0, Watermark(5)) == [(0, Watermark(5))], "only one of two had ended: the input has not"
    old.feed(1, End())
    assert restored(old, [0, 1]).feed(1, End())[-1] == (0, End())


def test_foreign_marks_are_refused_in_a_sentence():
    with pytest.raises(AppError, match="not the marks of an instance"):
        three().restore_marks(b"\x93rubbish")
