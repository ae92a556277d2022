"""Stories of a ring of real probers, whose messages and timers go through one small heap.

The heap plays the network and the node: it loses, delays and cuts as told, and like an `OverlayNode` it stops
watching who is confirmed and watches again who is trusted.
"""

from collections import defaultdict
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.effects import Confirmed, Departed, Later, Send, Suspected, Trusted
from overlay.ids import Key, PeerId
from overlay.messages.probing import INCARNATION_MAX, Ack, Nack, Ping, PingRequest, Rumour, Rumours
from overlay.probe_events import Slept
from overlay.probe_settings import ProbeSettings
from overlay.prober import Prober
from overlay.vitals import Vitals
from overlay.wire import decode, encode

SETTINGS = ProbeSettings()


class Ring:
    """`peers` probers who all watch each other."""

    def __init__(self, peers: int, *, seed: int = 1, loss: float = 0.0) -> None:
        self.now = 0.0
        self.loss = loss
        self.rng = Random(seed)
        self.contacts = [Contact(PeerId(Key(n + 1)), "10.0.0.1", n + 1, zone="z") for n in range(peers)]
        self.index = {contact.peer: n for n, contact in enumerate(self.contacts)}
        self.leaves = [{c.peer: c for c in self.contacts if c is not me} for me in self.contacts]
        self.probers = [self._prober(n, seed) for n in range(peers)]
        self.seen: dict[int, list[tuple[float, Any]]] = defaultdict(list)
        self.sent: list[tuple[float, int, int, Any]] = []
        self.dead: set[int] = set()
        self.refusing: set[int] = set()
        self.paused_until: dict[int, float] = {}
        self.cut: set[tuple[int, int]] = set()
        self.deaf_s: dict[int, float] = {}
        self._heap: list[tuple[float, int, int, Any]] = []
        self._order = count()
        for n, prober in enumerate(self.probers):
            self._carry_out(n, prober.watch(self.leaves[n].values(), 0.0))
            self._carry_out(n, prober.start(0.0))

    def _prober(self, n: int, seed: int) -> Prober:
        vitals = Vitals(cores=4, memory_mib=1024, slots=8, slots_used=n % 8, load=n / 100)
        return Prober(
            self.contacts[n],
            settings=SETTINGS,
            rng=Random(seed * 1000 + n),
            vitals=lambda: vitals,
            audience=lambda: list(self.leaves[n].values()),
        )

    def _at(self, at: float, target: int, event: Any) -> None:
        heappush(self._heap, (at, next(self._order), target, event))

    def _carry_out(self, n: int, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._send(n, self.index[effect.to.peer], effect.message)
            elif isinstance(effect, Later):
                self._at(max(effect.at, self.now), n, ("wake", effect.event))
            else:
                self.seen[n].append((self.now, effect))
                self._obey(n, effect)

    def _obey(self, n: int, effect: Any) -> None:
        leaves = self.leaves[n]
        if isinstance(effect, Confirmed | Departed):
            leaves.pop(effect.contact.peer, None)
        elif isinstance(effect, Trusted):
            leaves[effect.contact.peer] = effect.contact
        else:
            return
        self._carry_out(n, self.probers[n].watch(leaves.values(), self.now))

    def _send(self, n: int, to: int, message: Any) -> None:
        self.sent.append((self.now, n, to, message))
        latency_s = self.rng.uniform(0.005, 0.04)
        if to in self.refusing:
            self._at(self.now + latency_s, n, ("lost", self.contacts[to].peer, "refused"))
        elif self.rng.random() >= self.loss and (n, to) not in self.cut:
            self._at(self.now + latency_s + self.deaf_s.get(to, 0.0), to, ("message", n, message))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            at, _, n, event = heappop(self._heap)
            self.now = max(self.now, at)
            if n in self.dead:
                continue
            if self.now < self.paused_until.get(n, 0.0):
                self._at(self.paused_until[n], n, event)
                continue
            prober = self.probers[n]
            match event:
                case ("wake", timer):
                    effects = prober.wake(timer, self.now)
                case ("message", sender, message):
                    effects = prober.receive(self.contacts[sender], message, self.now)
                case ("lost", peer, reason):
                    effects = prober.link_lost(peer, reason, self.now)
            self._carry_out(n, effects)
        self.now = end

    def kill(self, n: int, *, connected: bool = False) -> None:
        """A crash. If they were `connected`, the kernel closes all its connections and refuses new ones."""
        self.dead.add(n)
        if connected:
            self.refusing.add(n)
            for other in range(len(self.probers)):
                self._at(self.now + 0.005, other, ("lost", self.contacts[n].peer, "closed"))

    def say_farewell(self, n: int) -> None:
        """It leaves on purpose, tells everyone (as the node does for its prober), and falls silent."""
        prober = self.probers[n]
        word = Rumours((Rumour("left", self.contacts[n], prober.incarnation, ()),))
        prober.stop()
        self._carry_out(n, [Send(leaf, word) for leaf in self.leaves[n].values()])

    def pause(self, n: int, seconds: float) -> None:
        self.paused_until[n] = self.now + seconds

    def tell(self, n: int, sender: int, *rumours: Rumour) -> None:
        """Somebody says something, true or not."""
        self._at(self.now, n, ("message", sender, Rumours(rumours)))

    def when(self, kind: type[Any], *, about: int | None = None, by: int | None = None) -> list[float]:
        """When did the peers (or one of them) see an effect of this kind (about one peer)?"""
        return [
            at
            for n, seen in sorted(self.seen.items())
            for at, effect in seen
            if isinstance(effect, kind)
            and by in (None, n)
            and (about is None or effect.contact.peer == self.contacts[about].peer)
        ]

    def who(self, kind: type[Any], *, about: int) -> set[int]:
        return {n for n in range(len(self.probers)) if self.when(kind, about=about, by=n)}

    def everyone_but(self, *out: int) -> set[int]:
        return set(range(len(self.probers))) - set(out)


# A ring at peace.


def test_a_healthy_ring_is_quiet_and_cheap():
    ring = Ring(20)
    ring.run(60.0)
    assert not ring.seen
    assert len(ring.sent) / 20 / 60 == pytest.approx(2.0, rel=0.05)
    assert {type(message) for *_, message in ring.sent} == {Ping, Ack}


def test_heartbeats_carry_load_and_measure_the_round_trip():
    ring = Ring(5)
    samples: list[tuple[PeerId, float]] = []
    ring.probers[0].on_rtt = lambda peer, rtt_s: samples.append((peer, rtt_s))
    ring.run(30.0)
    for n in range(1, 5):
        peer = ring.contacts[n].peer
        vitals, rtt_s = ring.probers[0].vitals_of(peer), ring.probers[0].rtt_s(peer)
        assert vitals is not None and vitals.load == n / 100
        assert rtt_s is not None and 0.01 <= rtt_s <= 0.08
    assert len(samples) > 25


def test_every_watched_peer_is_probed_in_every_round():
    ring = Ring(8)
    ring.run(14.5)
    pinged = {to for _, n, to, message in ring.sent if n == 3 and type(message) is Ping}
    assert pinged == ring.everyone_but(3)


def test_one_seed_gives_one_trace():
    def trace() -> list[str]:
        ring = Ring(10, seed=5, loss=0.1)
        ring.run(10.0)
        ring.kill(3)
        ring.run(20.0)
        return [repr(sent) for sent in ring.sent]

    assert trace() == trace()


# Death.


@pytest.mark.parametrize("seed", range(3))
def test_a_dead_peer_is_confirmed_by_all(seed):
    ring = Ring(20, seed=seed)
    ring.run(10.0)
    ring.kill(7)
    ring.run(20.0)
    assert ring.who(Confirmed, about=7) == ring.everyone_but(7)
    assert max(ring.when(Confirmed)) < 10.0 + 9.0
    assert len(ring.when(Confirmed)) == 19


@pytest.mark.parametrize("seed", range(3))
def test_broken_and_refused_connections_speed_it_up(seed):
    ring = Ring(20, seed=seed)
    ring.run(10.0)
    ring.kill(7, connected=True)
    ring.run(20.0)
    assert ring.who(Confirmed, about=7) == ring.everyone_but(7)
    assert 10.0 + ring.probers[0].wait.min_s <= min(ring.when(Confirmed))
    assert max(ring.when(Confirmed)) < 10.0 + 4.0


def test_a_dead_peer_is_confirmed_by_all_though_every_fifth_message_is_lost():
    ring = Ring(20, loss=0.2)
    ring.run(10.0)
    ring.kill(7)
    ring.run(50.0)
    assert ring.who(Confirmed, about=7) == ring.everyone_but(7)


def test_half_of_the_ring_dies_at_once():
    ring = Ring(20)
    ring.run(10.0)
    for n in range(10):
        ring.kill(n)
    ring.run(60.0)
    for n in range(10):
        assert ring.who(Confirmed, about=n) == set(range(10, 20))
    assert all(not ring.when(Confirmed, about=n) for n in range(10, 20))


def test_of_two_peers_the_survivor_waits_the_whole_maximum():
    ring = Ring(2)
    ring.run(5.0)
    ring.kill(1)
    ring.run(60.0)
    [at] = ring.when(Confirmed, about=1)
    assert at - 5.0 >= ring.probers[0].wait.max_s - SETTINGS.period_s


def test_a_confirmation_names_several_witnesses_and_all_are_real():
    ring = Ring(20)
    ring.run(10.0)
    ring.kill(7)
    ring.run(20.0)
    for n in ring.everyone_but(7):
        [verdict] = [effect for _, effect in ring.seen[n] if isinstance(effect, Confirmed)]
        assert len(set(verdict.witnesses)) == len(verdict.witnesses) >= 2
        assert ring.contacts[n].peer in verdict.witnesses
        assert ring.contacts[7].peer not in verdict.witnesses


# Pauses.


@pytest.mark.parametrize("seed", range(5))
def test_a_pause_shorter_than_the_suspicion_time_is_forgiven(seed):
    ring = Ring(20, seed=seed)
    ring.run(10.0)
    ring.pause(7, ring.probers[0].wait.min_s - 0.1)
    ring.run(40.0)
    assert not ring.when(Confirmed)
    assert ring.who(Trusted, about=7) == ring.who(Suspected, about=7)


@pytest.mark.parametrize("seed", range(3))
def test_a_longer_pause_is_not_and_after_it_everybody_trusts_again(seed):
    ring = Ring(20, seed=seed)
    ring.run(10.0)
    ring.pause(7, 20.0)
    ring.run(20.0)
    assert ring.who(Confirmed, about=7) == ring.everyone_but(7)
    ring.run(10.0)
    [slept] = [effect for _, effect in ring.seen[7] if isinstance(effect, Slept)]
    assert 15.0 < slept.seconds <= 20.0
    assert ring.who(Trusted, about=7) == ring.everyone_but(7)
    assert all(len(leaves) == 19 for leaves in ring.leaves)
    assert not ring.when(Confirmed, by=7) and not ring.when(Suspected, by=7)


def test_who_was_cut_off_for_long_is_found_again():
    ring = Ring(10)
    ring.run(5.0)
    ring.cut = {(a, b) for a in range(10) for b in range(10) if (a < 3) != (b < 3)}
    ring.run(90.0)
    assert ring.who(Confirmed, about=0) == set(range(3, 10))
    ring.cut = set()
    ring.run(90.0)
    assert all(len(leaves) == 9 for leaves in ring.leaves)


# Health is not doubted lightly.


@pytest.mark.parametrize("seed", range(4))
def test_one_message_in_twenty_is_lost_and_nobody_is_confirmed(seed):
    ring = Ring(20, seed=seed, loss=0.05)
    ring.run(200.0)
    assert not ring.when(Confirmed)


def test_one_message_in_five_is_lost_and_hardly_anybody_is_confirmed():
    ring = Ring(20, loss=0.2)
    ring.run(200.0)
    assert len(ring.when(Confirmed)) <= 2


@pytest.mark.parametrize("both_ways", [True, False])
def test_one_bad_link_evicts_nobody(both_ways):
    ring = Ring(20, loss=0.02)
    ring.cut = {(3, 4), (4, 3)} if both_ways else {(3, 4)}
    ring.run(150.0)
    assert not ring.when(Confirmed)


def test_a_peer_that_hears_late_accuses_nobody():
    ring = Ring(20)
    ring.run(5.0)
    ring.deaf_s[3] = 1.5
    ring.run(100.0)
    assert not ring.when(Suspected, by=3)
    assert not ring.when(Confirmed)


def test_a_peer_that_hears_nobody_doubts_itself():
    ring = Ring(20)
    ring.run(5.0)
    ring.cut = {(n, 3) for n in range(20)}
    ring.run(12.0)
    assert not ring.when(Suspected, by=3)
    assert ring.probers[3].awareness.score > 3


def test_a_peer_that_runs_late_gives_the_others_time():
    ring = Ring(20)
    ring.run(5.0)
    for _ in range(20):
        ring.pause(3, 1.2)
        ring.run(2.0)
    assert not ring.when(Suspected, by=3)
    assert not ring.when(Confirmed)


# Rumours.


def test_no_witness_is_invented():
    ring = Ring(20, loss=0.15)
    ring.run(10.0)
    ring.kill(7)
    ring.run(60.0)
    accused_at: dict[tuple[PeerId, PeerId], float] = {}
    for n, seen in ring.seen.items():
        for at, effect in seen:
            if isinstance(effect, Suspected):
                accused_at.setdefault((ring.contacts[n].peer, effect.contact.peer), at)
    heard_of = 0
    for at, *_, message in ring.sent:
        for rumour in getattr(message, "rumours", ()):
            assert len(set(rumour.witnesses)) == len(rumour.witnesses)
            for witness in rumour.witnesses:
                assert accused_at[witness, rumour.contact.peer] <= at
                heard_of += 1
    assert heard_of > 100


@pytest.mark.parametrize("status", ["suspect", "confirmed", "left"])
def test_a_lie_about_a_living_peer_is_refuted(status):
    ring = Ring(10)
    ring.run(5.0)
    lie = Rumour(status, ring.contacts[2], 0, tuple(c.peer for c in ring.contacts[3:9]))
    for n in ring.everyone_but(2, 9):
        ring.tell(n, 9, lie)
    ring.run(30.0)
    assert not ring.seen
    assert ring.probers[2].incarnation >= 1


def test_a_lie_at_the_highest_incarnation_stops_nobody():
    ring = Ring(5)
    ring.run(5.0)
    ring.tell(2, 4, Rumour("suspect", ring.contacts[2], INCARNATION_MAX, ()))
    ring.run(20.0)
    assert not ring.when(Confirmed)
    for *_, message in ring.sent:
        assert decode(encode(message)) == message


def test_many_accusers_make_the_accused_rise_once_not_often():
    ring = Ring(20)
    ring.run(5.0)
    for n in ring.everyone_but(2, 9):
        ring.tell(n, 9, Rumour("suspect", ring.contacts[2], 0, (ring.contacts[9].peer,)))
    ring.run(10.0)
    assert ring.probers[2].incarnation == 1


def test_who_says_that_it_leaves_is_gone_at_once_and_nobody_suspects():
    ring = Ring(10)
    ring.run(5.0)
    ring.say_farewell(4)
    ring.run(10.0)
    assert ring.who(Departed, about=4) == ring.everyone_but(4)
    assert max(ring.when(Departed)) < 5.1
    assert not ring.when(Confirmed) and not ring.when(Suspected)


def test_a_farewell_that_some_missed_reaches_them_through_others():
    ring = Ring(10)
    ring.run(5.0)
    ring.cut = {(4, 0), (4, 1)}
    ring.say_farewell(4)
    ring.run(10.0)
    assert ring.who(Departed, about=4) == ring.everyone_but(4)
    assert not ring.when(Confirmed)


def test_gossip_falls_silent_when_there_is_no_news():
    ring = Ring(10)
    ring.run(5.0)
    ring.kill(7)
    ring.run(40.0)
    told = [at for at, *_, message in ring.sent if type(message) is Rumours]
    assert told and max(told) < 25.0


# The watch list.


def test_a_restarted_peer_starts_with_a_clean_name():
    ring = Ring(3)
    ring.run(5.0)
    ring.kill(2)
    ring.run(3.5)
    old = ring.contacts[2]
    new = Contact(old.peer, "10.0.0.9", 9, zone="z", boot_ms=1)
    assert ring.probers[0].is_suspected(old.peer)
    leaves = [ring.contacts[1], new]
    assert ring.probers[0].watch(leaves, ring.now) == [Trusted(new)]
    assert not ring.probers[0].is_suspected(old.peer)


@given(st.lists(st.sets(st.integers(2, 12)), min_size=1, max_size=8), st.integers(0, 5))
def test_exactly_the_watched_are_probed(sets, seed):
    me = Contact(PeerId(Key(1)), "h", 1)
    vitals = Vitals(1, 1, 1, 0, 0.0)
    prober = Prober(me, settings=SETTINGS, rng=Random(seed), vitals=lambda: vitals, audience=lambda: [])
    pending = [effect.event for effect in prober.start(0.0)]
    pinged: set[int] = set()
    now = 0.0
    for peers in sets:
        prober.watch([Contact(PeerId(Key(n)), "h", n) for n in sorted(peers)], now)
        pinged.clear()
        for _ in range(2 * len(peers) + 1):
            tick = pending.pop()
            now = tick.at
            effects = prober.wake(tick, now)
            pending.append(effects[0].event)
            for effect in effects:
                if isinstance(effect, Send) and isinstance(effect.message, Ping):
                    pinged.add(effect.to.peer)
                    answer = Ack(effect.message.nonce, 0, vitals, ())
                    assert prober.receive(effect.to, answer, now + 0.01) == []
        assert pinged == peers


def test_a_forgotten_peer_leaves_nothing_behind():
    ring = Ring(4)
    ring.run(10.0)
    prober, peer = ring.probers[0], ring.contacts[1].peer
    prober.forget(peer)
    assert prober.vitals_of(peer) is None and prober.rtt_s(peer) is None and not prober.is_suspected(peer)


# The wire.

contacts = st.builds(
    Contact,
    st.integers(0, 2**160 - 1).map(lambda n: PeerId(Key(n))),
    st.text(max_size=20),
    st.integers(0, 65535),
    zone=st.text(max_size=10),
    boot_ms=st.integers(0, 2**64 - 1),
)
nonces = st.integers(0, 2**64 - 1)
incarnations = st.integers(0, INCARNATION_MAX)
u16 = st.integers(0, 65535)
vitals_of_any = st.builds(Vitals, u16, st.integers(0, 2**32 - 1), u16, u16, st.floats(0.0, 1000.0))
rumours_of_any = st.lists(
    st.builds(
        Rumour,
        st.sampled_from(["alive", "suspect", "confirmed", "left"]),
        contacts,
        incarnations,
        st.lists(st.integers(0, 2**160 - 1).map(lambda n: PeerId(Key(n))), max_size=8).map(tuple),
    ),
    max_size=8,
).map(tuple)
any_message = st.one_of(
    st.builds(Ping, nonces, incarnations, vitals_of_any, st.booleans(), rumours_of_any),
    st.builds(Ack, nonces, incarnations, vitals_of_any, rumours_of_any),
    st.builds(PingRequest, nonces, contacts),
    st.builds(Nack, nonces),
    st.builds(Rumours, rumours_of_any),
)


@given(any_message)
def test_every_message_survives_the_wire(message):
    assert decode(encode(message)) == message
