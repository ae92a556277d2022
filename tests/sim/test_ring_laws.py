"""Laws of the whole ring, on the production node: Hypothesis draws what happens, the simulator lets it happen."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlay.directory import Listing, Stored
from overlay.effects import Answer
from overlay.settings import Settings
from sim.faults import Faults
from sim.peer import SimPeer
from sim.world import World

acts = st.lists(
    st.tuples(st.sampled_from(["join", "join", "leave", "crash", "restart"]), st.floats(0.0, 3.0)), max_size=14
)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.sampled_from([0.0, 0.05]), acts)
@example(236, 2, 0.0, [("leave", 0.0), ("join", 0.0), ("join", 0.0)])  # a claim that asked only the nearest peer
def test_leaf_sets_equal_brute_force_after_any_order_of_joins_leaves_and_crashes(seed, leaves, loss, story):
    world = World(
        seed, zones=2, peers_per_zone=6, settings=Settings(leaves=leaves), faults=Faults(loss=loss), as_bytes=True
    )
    ended: list[SimPeer] = []
    for number, (act, pause_s) in enumerate(story):
        victim = world.live[number * 7 % len(world.live)]
        if act == "join":
            world.add()
        elif act == "restart" and ended:
            world.restart(ended.pop(0), moved=number % 2 == 0)
        elif len(world.live) > 4:
            if act == "leave":
                world.leave(victim)
            else:
                world.crash(victim)
                ended.append(victim)
        world.run_for(pause_s)
    world.run_until(lambda: world.leaf_sets_exact == 1.0, limit_s=180)
    world.run_until(lambda: world.is_settled)
    deliveries = [world.route(world.random_key()) for _ in range(20)]
    world.run_for(25.0)
    assert all(it.answer is not None and it.answer.owner.peer == world.census.owner(it.key) for it in deliveries)


def ask(world: World, peer: SimPeer, start: Any) -> Any:
    """Start a request at a peer, and let time pass until its answer."""
    answers: dict[int, Any] = {}
    world.watch(Answer, lambda who, effect, now: answers.setdefault(effect.request, effect.result))
    request, effects = start(peer.node)
    peer.carry_out(effects, world.now)
    world.run_until(lambda: request in answers, limit_s=60)
    return answers[request]


def test_what_is_published_anywhere_is_found_from_anywhere_though_its_holders_die_one_after_another():
    world = World(seed=3, zones=3, peers_per_zone=12)
    publisher = world.live[0]
    stored = ask(world, publisher, lambda node: node.publish("source", "readings", b"attic", world.now))
    assert isinstance(stored, Stored) and stored.copies == stored.wanted
    for _ in range(8):
        holders = [peer for peer in world.live[1:] if peer.node.directory.held(world.now)]
        world.crash(holders[0])
        world.run_for(20.0)
        listing = ask(world, world.live[-1], lambda node: node.get("source", "readings", world.now))
        assert isinstance(listing, Listing)
        assert [record.value for record in listing.records] == [b"attic"]


def test_a_holder_that_restarts_before_anybody_missed_it_is_given_its_records_again():
    world = World(seed=9, zones=3, peers_per_zone=8)
    ask(world, world.live[0], lambda node: node.publish("source", "readings", b"attic", world.now))
    holder = next(peer for peer in world.live[1:] if peer.node.directory.held(world.now))
    world.crash(holder)
    reborn = world.restart(holder, moved=True)
    world.run_until(lambda: bool(reborn.node.directory.held(world.now)), limit_s=30)


def test_zone_digests_reach_everybody():
    world = World(seed=4, zones=3, peers_per_zone=8)
    world.run_for(90.0)
    for peer in world.live:
        totals = peer.node.gossip.totals(world.now)
        assert {zone: total.peers for zone, total in totals.items()} == {f"zone-{n}": 8 for n in range(3)}


def test_a_peer_whose_every_seed_is_dead_gets_in_through_whom_it_met():
    world = World(seed=5, zones=1, peers_per_zone=8)
    seeds = world.live[:3]
    for seed in seeds[:2]:
        world.crash(seed)
    newcomer = world.add(seeds=seeds)
    world.run_until(lambda: newcomer in world.joined, limit_s=60)


def test_a_stopped_peer_is_confirmed_dead_and_rejoins_by_itself():
    world = World(seed=6, zones=2, peers_per_zone=10)
    world.run_for(20.0)
    sleeper = world.live[4]
    others = [peer for peer in world.live if peer is not sleeper]
    world.pause(sleeper)
    world.run_until(lambda: all(sleeper.me.peer not in peer.node.leaves for peer in others), limit_s=60)
    world.resume(sleeper)
    world.run_until(lambda: sleeper.node.is_member and world.leaf_sets_exact == 1.0, limit_s=60)

