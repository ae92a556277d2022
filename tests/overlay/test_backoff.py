"""Patience grows, but neither without limit nor in step with others'."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from overlay.backoff import Backoff


@given(st.integers(1, 200), st.integers())
def test_the_wait_doubles_up_to_its_limit_and_keeps_at_least_half(failures, seed):
    backoff, rng = Backoff(min_s=0.2, max_s=8.0), Random(seed)
    for number in range(failures):
        backoff.on_failure(1000.0, rng)
        full_s = min(8.0, 0.2 * 2**number)
        assert full_s / 2 - 1e-9 <= backoff.not_before - 1000.0 <= full_s + 1e-9


def test_peers_that_failed_together_do_not_come_back_together():
    moments = set()
    for seed in range(50):
        backoff = Backoff()
        backoff.on_failure(0.0, Random(seed))
        moments.add(backoff.not_before)
    assert len(moments) == 50


def test_success_forgets_all_failures():
    backoff, rng = Backoff(), Random(1)
    for _ in range(20):
        backoff.on_failure(0.0, rng)
    assert not backoff.may_try(0.1)
    backoff.on_success()
    assert backoff.may_try(0.0)
    backoff.on_failure(0.0, rng)
    assert backoff.may_try(0.2)
