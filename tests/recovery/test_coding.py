"""Any `needed` of `total` fragments give the state back, and nothing wrong is ever taken for right."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.coding.coded import TooFewFragments, WrongDigest, code, rebuild, uncode
from recovery.coding.erasure import ERASURE
from recovery.coding.sealing import SEAL_BYTES, SealBroken, seal, unseal
from recovery.coding.slices import FRAGMENT_BYTES_MAX, slices
from recovery.naming import PartId

KEY = bytes(range(32))
PART = PartId("taxi", "count-0", generation=3, epoch=7, number=0)

shapes = st.integers(1, 12).flatmap(lambda total: st.tuples(st.integers(1, total), st.just(total)))
states = st.binary(max_size=300)


@given(states, shapes, st.data())
def test_any_total_minus_needed_fragments_may_be_lost(state, shape, data):
    needed, total = shape
    coded = code(state, needed=needed, total=total)
    left = data.draw(st.permutations(range(total)))[:needed]
    assert uncode({index: coded.fragments[index] for index in left}, coded.shape) == state


@given(states, shapes)
def test_the_bare_codec_gives_back_what_it_was_given(state, shape):
    needed, total = shape
    fragments = ERASURE.encode(state, needed=needed, total=total)
    assert len({len(it) for it in fragments}) == 1
    last = dict(list(enumerate(fragments))[-needed:])
    assert ERASURE.decode(last, needed=needed, total=total, size=len(state)) == state


@given(states.filter(bool), shapes, st.data())
def test_one_fragment_too_few_is_said_with_both_numbers(state, shape, data):
    needed, total = shape
    coded = code(state, needed=needed, total=total)
    left = data.draw(st.permutations(range(total)))[: needed - 1]
    with pytest.raises(TooFewFragments) as raised:
        uncode({index: coded.fragments[index] for index in left}, coded.shape)
    assert (raised.value.needed, raised.value.found) == (needed, needed - 1)


@given(states.filter(bool), shapes, st.data())
def test_any_flipped_bit_makes_that_fragment_a_missing_one(state, shape, data):
    needed, total = shape
    coded = code(state, needed=needed, total=total)
    victim = data.draw(st.integers(0, total - 1))
    flipped = bytearray(coded.fragments[victim])
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    fragments = dict(enumerate(coded.fragments)) | {victim: flipped}
    assert not coded.shape.is_good(victim, flipped)
    if needed < total:
        assert uncode(fragments, coded.shape) == state
    else:
        with pytest.raises(TooFewFragments):
            uncode(fragments, coded.shape)


@given(states, shapes, st.data())
def test_lost_fragments_are_rebuilt_as_they_were(state, shape, data):
    needed, total = shape
    coded = code(state, needed=needed, total=total)
    order = data.draw(st.permutations(range(total)))
    left, lost = order[:needed], order[needed:]
    rebuilt = rebuild({index: coded.fragments[index] for index in left}, coded.shape, lost)
    assert {index: bytes(it) for index, it in rebuilt.items()} == {it: bytes(coded.fragments[it]) for it in lost}


def test_fragments_of_two_epochs_are_never_mixed():
    one, other = (code(bytes([epoch]) * 100, needed=4, total=6) for epoch in (1, 2))
    for taken_from_other in range(1, 7):
        for foreign in combinations(range(6), taken_from_other):
            mixed = {index: (other if index in foreign else one).fragments[index] for index in range(6)}
            if 6 - taken_from_other >= 4:
                assert uncode(mixed, one.shape) == bytes([1]) * 100
            else:
                with pytest.raises(TooFewFragments):
                    uncode(mixed, one.shape)


def test_a_fragment_under_another_index_does_not_count():
    coded = code(b"0123456789abcdef", needed=2, total=4)
    with pytest.raises(TooFewFragments):
        uncode({0: coded.fragments[1], 1: coded.fragments[0], 3: coded.fragments[2]}, coded.shape)


def test_digests_that_do_not_belong_together_are_noticed_after_decoding():
    one, other = (code(bytes([it]) * 8, needed=2, total=3) for it in (1, 2))
    forged = replace(one.shape, digests=other.shape.digests)
    with pytest.raises(WrongDigest):
        uncode(dict(enumerate(other.fragments)), forged)


@given(states)
def test_a_part_opens_under_its_own_name_only(state):
    sealed = seal(KEY, PART, state)
    assert len(sealed) == len(state) + SEAL_BYTES
    assert unseal(KEY, PART, sealed) == state
    others = [
        replace(PART, app="taxis"),
        replace(PART, instance="count-1"),
        replace(PART, generation=4),
        replace(PART, epoch=8),
        replace(PART, number=1),
    ]
    for other in others:
        with pytest.raises(SealBroken):
            unseal(KEY, other, sealed)
    with pytest.raises(SealBroken):
        unseal(bytes(32), PART, sealed)


def test_the_same_text_looks_different_under_every_name():
    names = [PartId(app, "i", g, e, n) for app in "ab" for g in range(3) for e in range(3) for n in range(3)]
    names += [PartId("a", "ib", 1, 1, 1), PartId("ai", "b", 1, 1, 1)]  # no gluing of fields
    assert len({seal(KEY, name, b"same text") for name in names}) == len(names)


def test_sealing_twice_gives_the_same_bytes_so_a_repeated_deposit_changes_nothing():
    assert seal(KEY, PART, b"state") == seal(KEY, PART, b"state")


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(0, 20_000_000))
def test_slices_cover_everything_and_their_fragments_fit(needed, size):
    cut = list(slices(bytes(size), needed=needed))
    assert sum(len(it) for it in cut) == size
    assert all(len(it) + SEAL_BYTES <= needed * FRAGMENT_BYTES_MAX for it in cut)
    assert len(cut) == 1 or all(len(it) for it in cut)
