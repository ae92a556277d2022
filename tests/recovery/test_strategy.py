"""Restart, copies or coding, in which shape: chosen from state, peers and the survival asked for, and explained."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from recovery.holders import Candidate
from recovery.strategy import LOSSES_WANTED, Strategy, plan, survival_now

MIB = 1024 * 1024
ME = Candidate(PeerId(Key(999)), "a", 0.0, 10**12, 1e6)


def a_ring(*zones, mtbf_s=1e6, free_bytes=10**12):
    return [
        Candidate(PeerId(Key(1 + number)), zone, 5.0, free_bytes, mtbf_s)
        for number, zone in enumerate(zone for zone, size in zones for _ in range(size))
    ]


RING = a_ring(("a", 6), ("b", 6), ("c", 6), ("d", 6))


def test_no_state_or_a_short_life_is_restarted():
    assert plan(me=ME, candidates=RING, state_bytes=0).strategy is Strategy.RESTART
    short = plan(me=ME, candidates=RING, state_bytes=MIB, lifetime_s=5)
    assert short.strategy is Strategy.RESTART
    assert short.why == "it ends within 5 s: nothing is stored, a restart reads its input again"


def test_small_state_is_copied_and_large_state_coded():
    small, large = (plan(me=ME, candidates=RING, state_bytes=it) for it in (40, 64 * MIB))
    assert (small.strategy, small.needed, small.total) == (Strategy.COPIES, 1, 3)
    assert large.strategy is Strategy.ERASURE
    assert large.total / large.needed < 2
    assert large.zones_survived >= 1
    assert "64.0 MiB of state is large" in large.why


def test_the_app_may_ask_for_a_strategy():
    assert plan(me=ME, candidates=RING, state_bytes=64 * MIB, wanted=Strategy.COPIES).needed == 1
    assert plan(me=ME, candidates=RING, state_bytes=40, wanted=Strategy.ERASURE).needed == 2


def test_weaker_devices_get_more_fragments():
    weak = plan(me=ME, candidates=a_ring(("a", 8), ("b", 8), ("c", 8), mtbf_s=4 * 3600.0), state_bytes=64 * MIB)
    strong = plan(me=ME, candidates=a_ring(("a", 8), ("b", 8), ("c", 8), mtbf_s=4e6), state_bytes=64 * MIB)
    assert weak.total / weak.needed > strong.total / strong.needed
    assert weak.is_target_met and strong.is_target_met


def test_alone_is_said_in_a_sentence():
    alone = plan(me=ME, candidates=[ME], state_bytes=64 * MIB)
    assert (alone.needed, alone.total, alone.holders, alone.losses_survived) == (1, 1, (ME.peer,), 0)
    assert not alone.is_target_met
    assert alone.notes[0].startswith("there is no other peer: the state stays on this peer alone")
    full = plan(me=ME, candidates=a_ring(("b", 2), free_bytes=10), state_bytes=64 * MIB)
    assert "none of 2 other peers has room" in full.why


def test_two_peers_cannot_code_so_they_copy():
    pair = plan(me=ME, candidates=a_ring(("a", 1), ("b", 1)), state_bytes=64 * MIB)
    assert (pair.strategy, pair.needed, pair.total) == (Strategy.COPIES, 1, 2)
    assert "coding needs three peers" in pair.why
    assert any("only 1 holders may be lost" in it for it in pair.notes)


def test_a_target_out_of_reach_gives_the_best_there_is_and_says_so():
    poor = plan(me=ME, candidates=a_ring(("a", 2), ("b", 2), mtbf_s=700.0), state_bytes=64 * MIB)
    assert not poor.is_target_met
    assert any("was asked for and 4 peers give" in it for it in poor.notes)


def test_the_probability_now_counts_a_peer_with_two_fragments_once():
    ring = a_ring(("a", 1), ("b", 1), mtbf_s=1000.0)
    assert survival_now([ring[0], ring[0], ring[1]], needed=2, window_s=100.0) == pytest.approx(0.904837, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5)), max_size=4),
    st.integers(1, 300 * MIB),
    st.floats(100, 1e8),
    st.sampled_from([0.9, 0.999, 0.9999999]),
)
def test_a_plan_always_keeps_what_it_says(zones, state_bytes, mtbf_s, target):
    made = plan(me=ME, candidates=a_ring(*zones, mtbf_s=mtbf_s), state_bytes=state_bytes, target=target)
    assert len(made.holders) == len(set(made.holders)) == made.total
    assert made.losses_survived == made.total - made.needed
    assert made.is_target_met == (made.probability >= target)
    assert ME.peer not in made.holders or made.total == 1
    assert made.is_target_met or made.notes
    assert made.losses_survived >= LOSSES_WANTED or made.notes
