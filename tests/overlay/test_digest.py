"""A digest says the same, whoever merged what, how often and in which order."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.digest import EXACT_MAX, MEMBERS_MAX, SCHEDULERS_MAX, Member, Sample, ZoneDigest, rank
from overlay.ids import Key, PeerId


def member(number: int, *, version=1, slots=4, used=1, scheduler=False, said_s=0.0) -> Member:
    return Member(PeerId(Key(number)), slots, used, scheduler, version, said_s)


words = st.builds(
    member,
    st.integers(0, 90),
    version=st.integers(1, 3),
    slots=st.integers(0, 2),
    scheduler=st.booleans(),
    said_s=st.integers(0, 2).map(float),
)


@st.composite
def digests(draw) -> ZoneDigest:
    """Often larger than a sample, often other words of the same peers: that is where merging may go wrong."""
    dense = draw(st.booleans())
    digest = ZoneDigest()
    for each in draw(st.lists(words, max_size=60)):
        digest.add(each)
    if dense:
        for number in range(draw(st.integers(0, 80))):
            digest.add(member(number, scheduler=number % 3 == 0))
    return digest


def merged(*parts: ZoneDigest) -> ZoneDigest:
    whole = ZoneDigest()
    for part in parts:
        whole.merge(part)
    return whole


@settings(max_examples=150, deadline=None)
@given(digests(), digests())
def test_merging_commutes(a, b):
    assert merged(a, b) == merged(b, a)


@settings(max_examples=150, deadline=None)
@given(digests(), digests(), digests())
def test_merging_is_associative(a, b, c):
    assert merged(merged(a, b), c) == merged(a, merged(b, c))


@settings(max_examples=100, deadline=None)
@given(digests(), digests())
def test_hearing_it_again_changes_nothing(a, b):
    assert merged(a, a) == merged(a) == a
    assert merged(a, b, a, b) == merged(a, b)


@settings(max_examples=150, deadline=None)
@given(digests(), digests())
def test_who_takes_what_it_lacks_by_version_has_merged_all_that_is_newer(a, b):
    told = a.newer_than(b.ranks, b.versions)
    assert len(told) <= MEMBERS_MAX + SCHEDULERS_MAX
    assert set(told) <= set(a.words())
    for each in told:
        b.add(each)
    whole = merged(b, a)
    assert {it.peer: it.version for it in b.members} == {it.peer: it.version for it in whole.members}
    assert a.newer_than(a.ranks, a.versions) == ()


@settings(max_examples=100, deadline=None)
@given(digests(), st.lists(st.integers(0, 2**64 - 1), max_size=41), st.lists(st.integers(0, 2**64 - 1), max_size=41))
def test_whatever_versions_somebody_claims_to_have_it_is_told_at_most_all_words(a, ranks, versions):
    assert set(a.newer_than(tuple(ranks), tuple(versions))) <= set(a.words())


@settings(max_examples=100, deadline=None)
@given(st.lists(words, max_size=120), st.lists(st.integers(0, 4).map(float), max_size=5))
def test_forgetting_keeps_exactly_whose_word_is_young_enough(given_words, times):
    sample = Sample(200, given_words)
    for said_s in times:
        kept = [it for it in sample if it.said_s >= said_s]
        sample.forget_older(said_s)
        assert list(sample) == kept
        assert sample.ranks == tuple(rank(it.peer) for it in kept)
        assert sample.versions == [it.version for it in kept]


@settings(max_examples=100, deadline=None)
@given(st.lists(words, max_size=120), st.randoms(use_true_random=False))
def test_a_sample_is_the_smallest_ranks_with_the_newest_words(given_words, shuffle):
    shuffled = given_words[:]
    shuffle.shuffle(shuffled)
    sample = Sample(MEMBERS_MAX, shuffled)
    smallest = sorted({it.peer for it in given_words}, key=rank)[:MEMBERS_MAX]
    assert sorted((it.peer for it in sample), key=rank) == smallest
    for each in sample:
        assert each.version == max(it.version for it in given_words if it.peer == each.peer)


@pytest.mark.parametrize("peers", [0, 1, EXACT_MAX - 1, EXACT_MAX])
def test_a_small_zone_is_known_exactly(peers):
    zone = ZoneDigest()
    for number in range(peers):
        zone.add(member(number, slots=number, used=1))
    totals = zone.totals()
    assert (totals.peers, totals.slots, totals.slots_used) == (peers, sum(range(peers)), peers)


@pytest.mark.parametrize("peers", [100, 1000, 10_000])
def test_a_large_zone_is_estimated_as_well_as_the_formula_says(peers):
    errors = []
    for seed in range(30):
        rng = Random(seed)
        zone = ZoneDigest()
        for _ in range(peers if peers <= 1000 else 0):
            zone.add(member(rng.getrandbits(160), slots=8, used=2))
        if peers > 1000:  # only the smallest ranks matter: no need to offer all the others thirty times
            for number in range(seed * peers, (seed + 1) * peers, 1):
                if rank(PeerId(Key(number))) < (1 << 64) // 50:
                    zone.add(member(number, slots=8, used=2))
        errors.append(zone.totals().peers / peers - 1)
        assert zone.totals().slots == pytest.approx(8 * zone.totals().peers)
    assert abs(sum(errors)) / len(errors) < 0.1, "unbiased"
    assert (sum(it * it for it in errors) / len(errors)) ** 0.5 < 0.27, "1.5 times the standard error"


def test_a_silent_member_ages_out_and_an_echo_does_not_keep_it():
    zone = ZoneDigest()
    zone.add(member(1, version=5, said_s=10.0))
    zone.add(member(1, version=5, said_s=99.0))  # the same word, from somebody who heard it late
    zone.add(member(2, version=5, said_s=99.0))
    zone.forget_older(50.0)
    assert [it.peer for it in zone.words()] == [2]


def test_a_full_sample_that_loses_members_does_not_take_the_zone_for_small():
    zone = ZoneDigest()
    for number in range(1000):
        zone.add(member(number, said_s=100.0 + number % 7))
    before = zone.totals().peers
    zone.forget_older(101.0)
    assert len(zone.members) < MEMBERS_MAX
    assert zone.totals().peers == pytest.approx(before, rel=0.35)


def test_a_zone_that_really_shrank_is_counted_exactly_in_the_end():
    zone = ZoneDigest()
    for number in range(1000):
        zone.add(member(number, said_s=100.0))
    left = [it.peer for it in zone.members][:5]
    for peer in left:
        zone.add(member(peer, version=2, said_s=200.0))
    zone.forget_older(150.0)
    for peer in left:
        zone.add(member(peer, version=3, said_s=300.0))
    zone.forget_older(250.0)
    assert zone.totals().peers == 5


def test_a_zone_of_thousands_still_names_its_schedulers():
    zone = ZoneDigest()
    for number in range(2000):
        zone.add(member(number, scheduler=number % 500 == 0))
    assert zone.totals().schedulers == (0, 500, 1000, 1500)


def test_who_is_a_scheduler_no_longer_is_not_named_once_that_is_known():
    zone = ZoneDigest()
    zone.add(member(1, version=1, scheduler=True))
    zone.add(member(1, version=2, scheduler=False))
    assert zone.totals().schedulers == ()


def test_only_so_many_schedulers_are_kept():
    zone = ZoneDigest()
    for number in range(100):
        zone.add(member(number, scheduler=True))
    assert len(zone.totals().schedulers) == SCHEDULERS_MAX
