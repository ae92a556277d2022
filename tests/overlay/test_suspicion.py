"""Laws of one suspicion: witnesses shorten it, nobody is confirmed on one word, nothing counts twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from overlay.suspicion import OWN_FAILURES_ALONE, OWN_FAILURES_MIN, Suspicion, Wait, wait_for

ME = PeerId(Key(0))
WAIT = Wait(2.0, 12.0)
peers = st.integers(1, 20).map(lambda n: PeerId(Key(n)))
words = st.lists(peers, max_size=30)


def suspicion(*, others: int = 20) -> Suspicion:
    return Suspicion(ME, incarnation=0, now=0.0, wait=WAIT, others=others)


@given(words, st.integers(0, 20))
def test_the_deadline_only_comes_nearer_and_never_before_the_minimum(heard, others):
    case = suspicion(others=others)
    before = case.deadline
    for witness in heard:
        case.hear([witness])
        assert WAIT.min_s <= case.deadline <= before
        before = case.deadline


@given(words)
def test_a_witness_counts_once_however_often_it_is_heard_of(heard):
    once, often = suspicion(), suspicion()
    once.hear(dict.fromkeys(heard))
    often.hear(heard)
    often.hear(heard)
    assert once.witnesses == often.witnesses
    assert once.deadline == often.deadline
    assert len(set(often.witnesses)) == len(often.witnesses)


@given(words, st.randoms(use_true_random=False))
def test_the_order_of_the_witnesses_does_not_matter(heard, rng):
    shuffled = list(heard)
    rng.shuffle(shuffled)
    one, other = suspicion(), suspicion()
    one.hear(heard)
    other.hear(shuffled)
    assert one.deadline == other.deadline


@given(words, st.floats(0.0, 1e6))
def test_nobody_is_confirmed_on_the_word_of_others_alone(heard, now):
    case = suspicion()
    case.hear(heard)
    case.hasten()
    assert not case.is_confirmed(now)


@given(st.integers(1, 100), st.floats(0.0, 11.99))
def test_nor_on_ours_alone_before_the_whole_maximum(failures, now):
    case = suspicion()
    for _ in range(failures):
        case.on_own_failure()
    assert not case.is_confirmed(now)
    assert case.is_confirmed(WAIT.max_s) == (failures >= OWN_FAILURES_ALONE)


def test_nobody_else_can_say_that_we_saw_it():
    case = suspicion()
    case.hear([ME])
    assert case.witnesses == ()


def test_we_count_as_a_witness_even_if_the_list_is_full():
    case = suspicion()
    case.hear(PeerId(Key(n)) for n in range(1, 100))
    case.on_own_failure()
    case.on_own_failure()
    assert ME in case.witnesses
    assert case.is_confirmed(WAIT.min_s)


def test_two_witnesses_shorten_the_wait_and_three_make_it_the_minimum():
    case = suspicion()
    for _ in range(OWN_FAILURES_MIN):
        case.on_own_failure()
    assert case.deadline == WAIT.max_s
    case.hear([PeerId(Key(1))])
    assert WAIT.min_s < case.deadline < WAIT.max_s
    case.hear([PeerId(Key(2))])
    assert case.deadline == pytest.approx(WAIT.min_s)
    assert not case.is_confirmed(WAIT.min_s - 0.01)
    assert case.is_confirmed(WAIT.min_s + 0.01)


def test_in_a_ring_of_three_the_two_that_are_left_are_enough():
    case = suspicion(others=1)
    case.on_own_failure()
    case.on_own_failure()
    case.hear([PeerId(Key(1))])
    assert case.is_confirmed(WAIT.min_s)


def test_a_failure_while_we_hear_nobody_is_no_testimony():
    case = suspicion()
    for _ in range(OWN_FAILURES_ALONE):
        case.on_own_failure(credible=False)
    case.hear([PeerId(Key(1)), PeerId(Key(2))])
    assert ME not in case.witnesses
    assert not case.is_confirmed(WAIT.max_s - 0.01)
    assert case.is_confirmed(WAIT.max_s)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_larger_ring_waits_no_shorter(a, b):
    few, many = sorted((a, b))
    short = wait_for(few, period_s=1.0, min_periods=2.0, max_factor=6.0)
    long = wait_for(many, period_s=1.0, min_periods=2.0, max_factor=6.0)
    assert short.min_s <= long.min_s
    assert short.max_s <= long.max_s
