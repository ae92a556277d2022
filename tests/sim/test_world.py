"""Small rings in which things go wrong."""

import pytest

from sim.churn import Churn, Rates
from sim.faults import Faults
from sim.peer import State
from sim.replay import SimulationError
from sim.seeds import rng_of
from sim.world import World


def keys_arrive(world: World, keys: int = 40) -> bool:
    found = [world.route(world.random_key()) for _ in range(keys)]
    world.run_for(20.0)
    return all(it.is_right for it in found)


def test_a_small_ring_forms_and_every_key_has_one_owner():
    world = World(seed=7, zones=3, peers_per_zone=4, as_bytes=True)
    world.run_until(lambda: world.is_settled)
    assert keys_arrive(world)


def test_a_zone_loses_power_and_the_others_close_ranks():
    world = World(seed=7, zones=3, peers_per_zone=12)
    world.run_until(lambda: world.is_settled)
    fallen = world.power_off(zone=1)
    world.run_until(lambda: world.is_settled, limit_s=120)
    assert keys_arrive(world)
    assert world.confirmations.false == []
    for peer in fallen:
        world.restart(peer)
    world.run_until(lambda: world.is_settled, limit_s=120)
    assert keys_arrive(world)


def test_a_crashed_peer_comes_back_at_another_address():
    world = World(seed=3, zones=2, peers_per_zone=8)
    victim = world.live[3]
    world.crash(victim)
    world.run_until(lambda: world.is_settled, limit_s=60)
    risen = world.restart(victim, moved=True)
    world.run_until(lambda: world.is_settled, limit_s=60)
    assert all(leaf == risen.me for peer in world.live for leaf in peer.node.leaves if leaf.peer == risen.me.peer)
    assert keys_arrive(world)


def test_a_short_pause_confirms_nobody_and_a_long_one_ends_in_a_rejoin():
    world = World(seed=5, zones=1, peers_per_zone=12)
    world.run_for(20.0)
    sleeper = world.live[4]
    world.pause(sleeper)
    world.run_for(1.5)
    world.resume(sleeper)
    world.run_for(30.0)
    assert world.confirmations.total == 0
    world.pause(sleeper)
    world.run_for(60.0)
    assert world.confirmations.total > 0
    world.resume(sleeper)
    world.run_until(lambda: world.is_settled, limit_s=90)
    assert world.confirmations.false == []
    assert keys_arrive(world)


def test_a_leaving_peer_is_missed_by_nobody():
    world = World(seed=11, zones=2, peers_per_zone=10)
    world.run_for(10.0)
    leaver = world.live[7]
    world.leave(leaver)
    world.run_until(lambda: world.is_settled, limit_s=60)
    world.run_for(5.0)
    assert leaver.state is State.LEFT
    assert keys_arrive(world)


def test_a_ring_cut_in_two_becomes_one_again():
    world = World(seed=13, zones=2, peers_per_zone=8)
    world.run_for(20.0)
    world.partition([peer for peer in world.live if peer.zone == 0])
    world.run_for(60.0)
    world.heal()
    world.run_until(lambda: world.is_settled, limit_s=300)
    assert world.confirmations.false == []
    assert keys_arrive(world)


def test_a_one_way_cut_between_two_peers_costs_nobody_his_place():
    world = World(seed=17, zones=2, peers_per_zone=8)
    world.run_for(20.0)
    world.partition(world.live[:1], world.live[1:2], one_way=True)
    world.run_for(60.0)
    assert all(it.by in world.live[:2] for it in world.confirmations.false)
    world.heal()
    world.run_until(lambda: world.is_settled, limit_s=120)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_mix_of_faults_a_seed_draws_the_ring_heals_once_they_end(seed: int):
    world = World(seed, zones=3, peers_per_zone=6, faults=Faults.drawn(rng_of(seed, "faults")), as_bytes=True)
    churn = Churn(world, Rates(crash_per_min=0.3, leave_per_min=0.2, join_per_min=0.3, restart_per_min=0.2))
    churn.start()
    world.run_for(60.0)
    churn.stop()
    world.calm()
    world.run_until(lambda: world.is_settled, limit_s=180)
    assert keys_arrive(world)


def test_a_failing_run_says_how_to_see_it_again():
    world = World(seed=7, zones=1, peers_per_zone=2)
    with pytest.raises(SimulationError) as failure:
        world.run_until(lambda: False, limit_s=1.0)
    assert "seed 7" in str(failure.value)
    assert "python -m pytest" in failure.value.replay
    assert "test_a_failing_run_says_how_to_see_it_again" in failure.value.replay
