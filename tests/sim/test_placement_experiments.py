"""Apps in a simulated ring: spread thinly, scheduled nearby, and not queueing behind one master."""

from overlay.ids import Key
from sim.checkers.routes import standstill
from sim.deploy import deploy
from sim.seeds import rng_of
from sim.spread import spread
from sim.still_ring import StillRing


def test_routes_through_a_still_ring_end_at_the_owner_and_make_progress():
    ring, rng = StillRing(300, 4, seed=3), rng_of(3, "keys")
    for _ in range(200):
        key = Key(rng.getrandbits(160))
        hops = ring.route(ring.peers[rng.randrange(300)], key)
        assert hops[-1] == ring.census.owner(key)
        assert standstill(key, list(hops)) is None


def test_operators_spread_better_than_by_hashing_and_schedulers_are_near():
    report = spread(peers=300, apps=30, seed=1, zones=4)
    assert report["deployed"] == 30 and report["operators"] == sum(
        int(many) * peers for many, peers in report["operators_per_peer"].items()
    )
    assert report["under_4"] > max(report["hashing_only_under_4"], report["path_only_under_4"])
    assert report["scheduler_hops_p95"] <= 3
    assert all(report["schedulers_per_zone"].values())
    assert report == spread(peers=300, apps=30, seed=1, zones=4)


def test_a_zone_with_more_than_fifty_apps_has_more_than_one_scheduler_though_gossip_is_slow():
    report = spread(peers=200, apps=120, seed=1, zones=1)
    assert report["deployed"] == 120
    assert report["schedulers"] == 3


def test_one_master_makes_apps_wait_and_many_schedulers_do_not():
    few, many = deploy([20, 200], seed=1, peers=1000, zones=5)["deployments"]
    assert few["ours"]["deployed"] == 20 and many["ours"]["deployed"] == many["master"]["deployed"] == 200
    assert many["master"]["queue_wait_ms_mean"] > 10 * few["master"]["queue_wait_ms_mean"]
    assert many["ours"]["queue_wait_ms_mean"] < many["master"]["queue_wait_ms_mean"] / 10
