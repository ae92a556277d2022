"""The arithmetic of losing holders, against counting every case by hand."""

from itertools import product
from math import exp, isclose, prod

from hypothesis import given
from hypothesis import strategies as st

from recovery.survival import alive_chance, left_over, losses_survived, survival

holders = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 3)), max_size=9)


def by_hand(group, needed):
    total = 0.0
    for fate in product((True, False), repeat=len(group)):
        if sum(held for (_, held), is_alive in zip(group, fate, strict=True) if is_alive) >= needed:
            total += prod(p if is_alive else 1 - p for (p, _), is_alive in zip(group, fate, strict=True))
    return total


@given(holders, st.integers(0, 12))
def test_survival_is_what_counting_every_case_gives(group, needed):
    assert isclose(survival(group, needed=needed), by_hand(group, needed), abs_tol=1e-12)


@given(holders)
def test_something_is_always_left_over(group):
    assert isclose(sum(left_over(group)), 1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 8), st.floats(0, 1))
def test_one_more_holder_never_hurts(chances, needed, another):
    before = survival([(it, 1) for it in chances], needed=needed)
    assert survival([*((it, 1) for it in chances), (another, 1)], needed=needed) >= before - 1e-12


def test_a_holder_fades_with_time_and_one_that_always_fails_is_never_there():
    assert isclose(alive_chance(window_s=100, mtbf_s=100), exp(-1))
    assert alive_chance(window_s=0, mtbf_s=100) == 1
    assert alive_chance(window_s=1, mtbf_s=0) == 0


@given(st.lists(st.sampled_from("abcdef"), max_size=8), st.integers(1, 8))
def test_losses_survived_is_the_worst_case_over_all_subsets(places, needed):
    peers = sorted(set(places))

    def survives_all_of(size):
        return all(
            sum(it not in lost for it in places) >= needed
            for fate in product((True, False), repeat=len(peers))
            if sum(fate) == size
            for lost in [{it for it, is_lost in zip(peers, fate, strict=True) if is_lost}]
        )

    most = max((size for size in range(len(peers) + 1) if survives_all_of(size)), default=-1)
    assert losses_survived(places, needed=needed) == most
