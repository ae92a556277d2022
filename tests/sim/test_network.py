"""Each fault of the network, alone."""

import pytest

from sim.faults import Faults
from sim.peer import IDLE_S, State
from sim.seeds import rng_of
from tests.sim.pinging import Pair, Word


def test_a_healthy_link_carries_everything_in_order_and_takes_its_time():
    pair = Pair()
    pair.say(100)
    assert pair.heard() == list(range(100))
    assert pair.two.node.heard[0][0] == pytest.approx(0.010)


def test_loss_takes_about_the_share_it_was_told_to():
    pair = Pair(Faults(loss=0.2))
    pair.say(2000)
    heard = pair.heard()
    assert 0.16 < 1 - len(heard) / 2000 < 0.24
    assert pair.network.lost == 2000 - len(heard)
    assert heard == sorted(heard)


def test_duplicates_arrive_twice_and_nothing_is_lost():
    pair = Pair(Faults(duplicate=0.3))
    pair.say(500)
    heard = pair.heard()
    assert set(heard) == set(range(500))
    assert 600 < len(heard) < 700


def test_reordering_delays_some_and_loses_none():
    pair = Pair(Faults(reorder=0.2, reorder_s=0.1))
    pair.say(500)
    heard = pair.heard()
    assert heard != sorted(heard)
    assert sorted(heard) == list(range(500))


def test_a_one_way_cut_silences_one_direction_until_it_heals():
    pair = Pair()
    cut = pair.network.cut([pair.one.me.peer], [pair.two.me.peer])
    pair.say(5)
    pair.network.send(pair.two, pair.one.me, Word(99), pair.heap.now)
    assert pair.heard() == []
    assert [number for _, number in pair.one.node.heard] == [99]
    pair.network.heal(cut)
    pair.say(2)
    assert pair.heard() == [0, 1]


def test_a_cut_swallows_what_is_under_way():
    pair = Pair()
    pair.network.send(pair.one, pair.two.me, Word(0), 0.0)
    pair.network.cut([pair.one.me.peer], [pair.two.me.peer])
    assert pair.heard() == []


def test_a_narrow_uplink_sends_one_message_after_another():
    pair = Pair(Faults(bandwidth_bytes_per_s=1000))
    for number in range(3):
        pair.network.send(pair.one, pair.two.me, Word(number, size_bytes=40), 0.0)
    assert pair.heard() == [0, 1, 2]
    # 40 bytes and 60 of framing at 1000 bytes a second: 0.1 s each, one behind the other.
    assert [at for at, _ in pair.two.node.heard] == pytest.approx([0.11, 0.21, 0.31])


def test_a_full_queue_drops_what_would_wait_too_long():
    pair = Pair(Faults(bandwidth_bytes_per_s=1000, queue_s_max=0.25))
    for number in range(10):
        pair.network.send(pair.one, pair.two.me, Word(number, size_bytes=40), 0.0)
    assert pair.heard() == [0, 1, 2]
    assert pair.network.lost == 7


def test_a_paused_peer_hears_everything_once_it_goes_on():
    pair = Pair()
    pair.two.pause()
    pair.say(3)
    pair.heap.run_to(5.0)
    assert pair.two.node.heard == []
    pair.two.resume()
    assert pair.heard() == [0, 1, 2]
    assert {at for at, _ in pair.two.node.heard} == {5.0}


def test_a_message_to_an_ended_life_is_not_given_to_the_next():
    pair = Pair()
    pair.network.send(pair.one, pair.two.me, Word(0), 0.0)
    pair.two.end(State.CRASHED)
    pair.two = pair._peer(2)
    assert pair.heard() == []


def test_a_crash_closes_connections_and_refuses_new_ones():
    pair = Pair()
    pair.say(1)
    pair.heap.run_to(1.0)
    pair.two.end(State.CRASHED)
    pair.say(1)
    pair.heap.run_to(2.0)
    two = pair.two.me.peer
    assert pair.one.node.lost_links == [(1.01, two, "closed"), (1.02, two, "refused")]


def test_nobody_notices_the_crash_of_a_peer_it_has_not_talked_to_lately():
    pair = Pair()
    pair.say(1)
    pair.heap.run_to(2 * IDLE_S)
    pair.two.end(State.CRASHED)
    pair.heap.run_to(3 * IDLE_S)
    assert pair.one.node.lost_links == []


@pytest.mark.parametrize(("hints", "end"), [(True, State.DARK), (False, State.CRASHED)])
def test_a_power_cut_tells_nobody_nor_does_a_crash_without_hints(hints: bool, end: State):
    pair = Pair(Faults(hints=hints))
    pair.say(1)
    pair.heap.run_to(1.0)
    pair.two.end(end)
    pair.say(1)
    pair.heap.run_to(2.0)
    assert pair.one.node.lost_links == []


def test_a_seed_draws_its_own_mix_and_draws_it_again():
    mixes = [Faults.drawn(rng_of(seed, "faults")) for seed in range(30)]
    assert mixes == [Faults.drawn(rng_of(seed, "faults")) for seed in range(30)]
    assert {mix.loss > 0 for mix in mixes} == {mix.duplicate > 0 for mix in mixes} == {True, False}


def test_a_share_above_one_is_refused():
    with pytest.raises(ValueError, match="loss is a share from 0 to 1, not 5"):
        Faults(loss=5)
