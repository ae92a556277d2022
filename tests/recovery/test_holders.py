"""Who holds what: near, spread over zones, one fragment a peer; and what could not be had is said."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from recovery.holders import Candidate, NoHolder, choose


def a_peer(number, zone="a", *, rtt_ms=5.0, free_bytes=10**9, mtbf_s=1e6):
    return Candidate(PeerId(Key(number)), zone, rtt_ms, free_bytes, mtbf_s)


rings = st.lists(
    st.builds(
        a_peer,
        st.integers(1, 40),
        st.sampled_from("abcd"),
        rtt_ms=st.floats(0, 300),
        free_bytes=st.sampled_from([0, 99, 100, 1000]),
        mtbf_s=st.floats(0, 1e7),
    ),
    max_size=14,
    unique_by=lambda it: it.peer,
)
shapes = st.integers(1, 8).flatmap(lambda total: st.tuples(st.integers(1, total), st.just(total)))


@given(rings, shapes, st.randoms(use_true_random=False))
def test_the_zone_rule_holds_wherever_zones_allow_it(ring, shape, rng):
    needed, total = shape
    roomy = [it for it in ring if it.free_bytes >= 100]
    if not roomy:
        with pytest.raises(NoHolder):
            choose(ring, needed=needed, total=total, fragment_bytes=100)
        return
    try:
        choice = choose(ring, needed=needed, total=total, fragment_bytes=100)
    except NoHolder:
        assert len(roomy) < total
        return
    shuffled = rng.sample(ring, len(ring))
    assert choose(shuffled, needed=needed, total=total, fragment_bytes=100) == choice

    zone_of = {it.peer: it.zone for it in ring}
    limit = total - needed
    per_zone = Counter(zone_of[it] for it in choice.holders)
    is_possible = sum(min(limit, held) for held in Counter(it.zone for it in roomy).values()) >= total
    assert choice.is_zone_safe == (max(per_zone.values()) <= limit)
    if is_possible:
        assert choice.is_zone_safe
    assert choice.is_doubled == (len(roomy) < total)
    assert choice.is_doubled == (len(set(choice.holders)) < total)
    assert bool(choice.notes) == (choice.is_doubled or not choice.is_zone_safe)
    for peer, held in Counter(choice.holders).items():
        assert next(it for it in ring if it.peer == peer).free_bytes >= held * 100


def test_neighbours_come_first_and_of_equally_near_ones_the_more_reliable():
    ring = [
        a_peer(1, rtt_ms=80.0, mtbf_s=1e7),
        a_peer(2, rtt_ms=5.0, mtbf_s=1e5),
        a_peer(3, rtt_ms=6.0, mtbf_s=1e6),
        a_peer(4, rtt_ms=0.5, mtbf_s=60.0),
    ]
    assert choose(ring, needed=1, total=4, fragment_bytes=1).holders == (3, 2, 1, 4)


def test_a_ring_that_is_too_small_says_who_holds_two():
    choice = choose([a_peer(1, "a"), a_peer(2, "b"), a_peer(3, "c")], needed=2, total=4, fragment_bytes=1)
    assert choice.holders == (1, 2, 3, 1)
    assert choice.is_doubled
    assert "peer 00000000 holds 2 fragments" in choice.notes[0]


def test_one_zone_alone_says_what_losing_it_means():
    choice = choose([a_peer(it) for it in range(1, 7)], needed=4, total=6, fragment_bytes=1)
    assert not choice.is_zone_safe
    assert choice.notes == ("if zone a is lost, 0 of 4 needed fragments are left: add peers elsewhere",)


def test_a_replacement_keeps_the_others_and_the_zone_rule():
    ring = [a_peer(it, zone) for zone, first in (("a", 1), ("b", 11), ("c", 21)) for it in range(first, first + 4)]
    choice = choose(ring, needed=4, total=6, fragment_bytes=1)
    gone = choice.holders[5]
    keeping = {index: it for index, it in enumerate(choice.holders) if it != gone}
    again = choose(ring, needed=4, total=6, fragment_bytes=1, keeping=keeping, barred={gone})
    assert again.holders[:5] == choice.holders[:5]
    assert again.holders[5] not in choice.holders
    assert again.is_zone_safe


def test_no_room_anywhere_is_a_sentence():
    with pytest.raises(NoHolder, match="no peer has room for another fragment of 100 bytes: add a peer"):
        choose([a_peer(1, free_bytes=99)], needed=4, total=6, fragment_bytes=100)
