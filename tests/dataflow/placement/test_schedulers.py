"""Schedulers: found near, one for fifty apps, elected by capacity, and missed by nobody when they die."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from dataflow.placement.scheduler import Accepted, Full, NoScheduler, Scheduler, elected
from dataflow.placement.search import SILENT_MAX, Found, NobodyFound, Search
from overlay.digest import Member, ZoneDigest
from overlay.ids import Key, PeerId


class Zone:
    """Peers that hear each other's gossip at once, and answer unless they are dead."""

    def __init__(self, slots, apps_max=50):
        self.version = 0
        self.digest = ZoneDigest()
        self.slots = {PeerId(Key(peer)): many for peer, many in slots.items()}
        self.peers = {peer: Scheduler(peer, lambda: self.digest, apps_max=apps_max) for peer in self.slots}
        self.dead = set()
        self.gossip()

    def gossip(self):
        self.version += 1
        self.digest = ZoneDigest()
        for peer, scheduler in self.peers.items():
            if peer not in self.dead:
                self.digest.add(Member(peer, self.slots[peer], 0, scheduler.is_open, self.version, 0.0))

    def find(self, app, avoid=(), *, gossip=True):
        search = Search(app, self.digest, peers=len(self.peers), avoid=avoid)
        while (ask := search.next()) is not None:
            if ask.peer in self.dead:
                search.on_silence(ask.peer)
            else:
                answer = self.peers[ask.peer].ask(app, elect=ask.elect, avoid=search.avoid)
                if gossip and isinstance(answer, Accepted) and answer.successor is not None:
                    self.peers[answer.successor].elect(self.peers[ask.peer].passed)
                search.on_answer(ask.peer, answer)
        if gossip:
            self.gossip()
        return search.outcome

    def schedulers(self):
        return [peer for peer, it in self.peers.items() if it.is_scheduler]


zones = st.dictionaries(st.integers(1, 2**160 - 1), st.integers(1, 64), min_size=12, max_size=30)


@given(zones, st.integers(1, 20), st.integers(2, 10), st.booleans())
def test_there_is_one_scheduler_for_so_many_apps_whether_gossip_is_quick_or_silent(slots, apps, apps_max, gossip):
    zone = Zone(slots, apps_max)
    found = [zone.find(f"app-{at}", gossip=gossip) for at in range(apps)]
    assert all(isinstance(it, Found) for it in found)
    if gossip:
        # The one that will take the next app is there already, as long as there is anybody left to elect.
        assert len(zone.schedulers()) == apps // apps_max + 1
        assert all(it.asks == 1 for it in found)
    else:
        assert len(zone.schedulers()) == ceil(apps / apps_max)
    assert sum(len(it.apps) for it in zone.peers.values()) == apps
    assert all(len(it.apps) <= apps_max for it in zone.peers.values())


@given(zones)
def test_the_peer_with_the_most_capacity_is_elected(slots):
    zone = Zone(slots)
    outcome = zone.find("app")
    assert outcome.was_elected
    assert zone.slots[outcome.peer] == max(it.slots for it in zone.digest.members)


def test_a_scheduler_dies_and_its_apps_find_another():
    zone = Zone({peer: peer % 7 for peer in range(1, 20)})
    first = zone.find("app")
    zone.dead.add(first.peer)
    second = zone.find("app", avoid={first.peer}, gossip=False)
    assert isinstance(second, Found) and second.peer != first.peer
    unaware = zone.find("other", gossip=False)
    assert isinstance(unaware, Found) and unaware.peer == second.peer


def test_an_app_that_asks_twice_is_counted_once():
    scheduler = Scheduler(PeerId(Key(1)), ZoneDigest, apps_max=2)
    assert scheduler.ask("a", elect=False) == NoScheduler()
    assert [scheduler.ask(app, elect=True) for app in "aab"] == [Accepted(None)] * 3
    assert scheduler.ask("c", elect=True) == Full(None)
    scheduler.ended("a")
    assert scheduler.is_open and scheduler.ask("c", elect=False) == Accepted()


def test_a_zone_where_nobody_answers_is_given_up_after_a_few():
    zone = Zone(dict.fromkeys(range(1, 20), 1))
    zone.dead.update(zone.peers)
    outcome = zone.find("app", gossip=False)
    assert isinstance(outcome, NobodyFound) and outcome.asks == SILENT_MAX
    assert "peer peers" in str(outcome)


def test_nobody_is_elected_in_a_zone_without_members():
    assert elected(ZoneDigest()) is None
