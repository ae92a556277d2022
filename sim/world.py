"""A whole ring in one process: production nodes on virtual time, and everything that can happen to them.

    world = World(seed=7, zones=3, peers_per_zone=4)
    world.power_off(zone=1)
    world.run_until(lambda: world.is_settled, limit_s=60)

One seed is one run: all randomness comes from streams named after their use, all events go through one
heap, and nothing depends on the order of a set. A broken promise raises `SimulationError` with the command
that shows it again.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NoReturn

from overlay.contact import Contact
from overlay.effects import Answer, Arrived, Confirmed, Joined
from overlay.ids import ID_BITS, Key, PeerId
from overlay.node import OverlayNode
from overlay.settings import Settings
from sim.census import Census
from sim.checkers.confirmations import Confirmations
from sim.checkers.deliveries import Deliveries, Delivery
from sim.checkers.leaf_sets import WrongLeafSet, wrong_leaf_sets
from sim.faults import Faults
from sim.heap import EventHeap
from sim.latency import Latency, Zoned
from sim.mishaps import Mishaps
from sim.network import Cut, Network
from sim.peer import SimPeer, State, Watcher
from sim.replay import SimulationError, replay_command
from sim.seeds import rng_of
from sim.trace import Trace

NodeMaker = Callable[[Contact, Random], Any]

SEEDS_A_JOIN = 3
"""Contacts that a newcomer is given: one may have died since."""
KNOCK_AGAIN_S = 15.0
"""How long a newcomer that found nobody waits before it tries others."""
LINGER_S = 1.0
"""How long a leaving process stays to finish sending, as `peer leave` does."""
SETTLE_S = 60.0
"""A small world that has not joined by then never will."""
STEP_S = 0.05
"""How often `run_until` looks."""


class World:
    """Peers in zones, a network between them, and a clock that we turn."""

    def __init__(
        self,
        seed: int = 7,
        zones: int = 3,
        peers_per_zone: int = 4,
        *,
        faults: Faults | None = None,
        latency: Latency | None = None,
        settings: Settings | None = None,
        make_node: NodeMaker | None = None,
        as_bytes: bool = False,
        deep_trace: bool = False,
        last_events: int = 30,
        replay: str = "",
    ) -> None:
        self.seed = seed
        self.zones = zones
        self.settings = settings or Settings()
        self.heap = EventHeap()
        self.trace = Trace(deep=deep_trace, last=last_events)
        self.network = Network(
            self.heap, latency or Zoned(), faults or Faults(), rng_of(seed, "network"), as_bytes=as_bytes
        )
        self.live: list[SimPeer] = []
        """Peers that run and do not mean to leave, in the order of their birth."""
        self.census = Census()
        """The ids of all live peers."""
        self.members = Census()
        """The ids of those that have joined: only they can own keys."""
        self.deliveries = Deliveries(self.members)
        self.confirmations = Confirmations(self.network)
        self.joined: dict[SimPeer, float] = {}
        """When each life became part of the ring."""
        self._make_node = make_node or self._overlay_node
        self._replay = replay
        self._rng = rng_of(seed, "world")
        self._lives = 0
        self._watchers: dict[type, list[Watcher]] = {}
        self.watch(Joined, self._on_joined)
        self.watch(Arrived, self.deliveries.on_arrived)
        self.watch(Answer, self.deliveries.on_answer)
        self.watch(Confirmed, self.confirmations.on_confirmed)
        for number in range(zones * peers_per_zone):
            self.add(zone=number % zones)
            self.run_for(STEP_S)
        if self.live:
            self.run_until(lambda: len(self.joined) == len(self.live), limit_s=SETTLE_S)
        self._mishaps = Mishaps(self)
        self._mishaps.start()

    def _overlay_node(self, me: Contact, rng: Random) -> OverlayNode:
        return OverlayNode(me, settings=self.settings, rng=rng)

    # Time.

    @property
    def now(self) -> float:
        return self.heap.now

    def run_for(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.heap.run_to(self.heap.now + seconds)

    def run_until(self, predicate: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Let virtual time pass until `predicate()`, which must happen within `limit_s`."""
        end = self.now + limit_s
        while not predicate():
            if self.now >= end:
                self.fail(f"not true after {limit_s:g} virtual seconds: {_words_of(predicate)}")
            self.run_for(STEP_S)

    def fail(self, reason: str) -> NoReturn:
        """Stop here, and say how to come back to this point."""
        raise SimulationError(
            reason,
            seed=self.seed,
            now=self.now,
            replay=self._replay or replay_command(),
            last=self.trace.last,
        )

    # Lives: how they begin and end.

    def add(self, zone: int | None = None, seeds: Sequence[SimPeer] | None = None) -> SimPeer:
        """A new device appears and joins, through `seeds` or some peers of the ring."""
        self._lives += 1
        number = self._lives
        rng = rng_of(self.seed, "peer", number)
        in_zone = (number - 1) % max(self.zones, 1) if zone is None else zone
        me = Contact(
            PeerId(Key(rng.getrandbits(ID_BITS))),
            f"10.{in_zone}.{number >> 8}.{number & 255}",
            4000,
            zone=f"zone-{in_zone}",
            boot_ms=self._boot_ms(),
        )
        place = self.network.latency.place(number, in_zone, rng)
        return self._start(me, place, in_zone, rng, seeds)

    def restart(self, peer: SimPeer, seeds: Sequence[SimPeer] | None = None, *, moved: bool = False) -> SimPeer:
        """The device of an ended life boots again: same id, later boot, and a new address if it `moved`."""
        assert not peer.runs, "a peer that runs cannot be restarted"
        self._lives += 1
        port = 4000 + self._lives % 50_000 if moved else peer.me.port
        me = Contact(peer.me.peer, peer.me.host, port, zone=peer.me.zone, boot_ms=self._boot_ms())
        return self._start(me, peer.place, peer.zone, rng_of(self.seed, "peer", self._lives), seeds)

    def _boot_ms(self) -> int:
        # A life begins after all earlier ones, even within one millisecond.
        return int(self.now * 1000) + self._lives

    def _start(self, me: Contact, place: int, zone: int, rng: Random, seeds: Sequence[SimPeer] | None) -> SimPeer:
        chosen = self.some_live(SEEDS_A_JOIN) if seeds is None else list(seeds)
        peer = SimPeer(
            self._make_node(me, rng),
            place=place,
            zone=zone,
            heap=self.heap,
            network=self.network,
            trace=self.trace,
            watchers=self._watchers,
        )
        self.network.peers[me.peer] = peer
        self.live.append(peer)
        self.census.add(me.peer)
        self.trace.note(self.now, peer.name, "starts")
        self.join(peer, chosen)
        self.heap.put(self.now + KNOCK_AGAIN_S, self._knock_again, peer)
        return peer

    def _knock_again(self, peer: SimPeer, now: float) -> None:
        """As `peer run` does: whoever still knows nobody tries other addresses."""
        if peer.runs and isinstance(peer.node, OverlayNode) and not peer.node.is_member:
            if peer.state is State.UP and not peer.node.leaves:
                self.join(peer, self.some_live(SEEDS_A_JOIN))
            self.heap.put(now + KNOCK_AGAIN_S, self._knock_again, peer)

    def join(self, peer: SimPeer, seeds: Sequence[SimPeer]) -> None:
        """Let a peer join through `seeds`, again if it must."""
        peer.carry_out(peer.node.join([seed.me for seed in seeds], self.now), self.now)

    def some_live(self, count: int) -> list[SimPeer]:
        """A few peers of the ring at random: of those that have joined, if there are enough."""
        live = self.live
        if not live:
            return []
        found: dict[SimPeer, None] = {}
        for _ in range(4 * count):
            peer = live[self._rng.randrange(len(live))]
            if peer in self.joined:
                found[peer] = None
            if len(found) == min(count, len(live)):
                break
        return list(found) or live[:1]

    def crash(self, peer: SimPeer) -> None:
        """`kill -9`: the process is gone, the device closes its connections."""
        self._end(peer, State.CRASHED)

    def power_off(self, zone: int) -> list[SimPeer]:
        """A whole zone falls silent. Returns who fell, for a later `restart`."""
        fallen = [peer for peer in self.live if peer.zone == zone]
        for peer in fallen:
            self._end(peer, State.DARK)
        return fallen

    def leave(self, peer: SimPeer) -> None:
        """The peer says goodbye, hands over and goes."""
        self._retire(peer)
        self.confirmations.leaving.add(peer)
        self.trace.note(self.now, peer.name, "leaves")
        peer.carry_out(peer.node.leave(self.now), self.now)
        self.heap.put(self.now + LINGER_S, self._exit, peer)

    def _exit(self, peer: SimPeer, now: float) -> None:
        if peer.runs:
            peer.end(State.LEFT)
        self.confirmations.leaving.discard(peer)

    def _end(self, peer: SimPeer, state: State) -> None:
        self._retire(peer)
        self.trace.note(self.now, peer.name, state.name.lower())
        peer.end(state)

    def _retire(self, peer: SimPeer) -> None:
        self.live.remove(peer)
        self.census.remove(peer.me.peer)
        if self.joined.pop(peer, None) is not None:
            self.members.remove(peer.me.peer)

    def _on_joined(self, peer: SimPeer, effect: Joined, now: float) -> None:
        if peer not in self.joined and peer not in self.confirmations.leaving:
            self.joined[peer] = now
            self.members.add(peer.me.peer)

    def pause(self, peer: SimPeer) -> None:
        """SIGSTOP."""
        self.trace.note(self.now, peer.name, "pauses")
        peer.pause()

    def resume(self, peer: SimPeer) -> None:
        """SIGCONT."""
        self.trace.note(self.now, peer.name, "resumes")
        peer.resume()

    # Links.

    def partition(self, side: Sequence[SimPeer], other: Sequence[SimPeer] = (), *, one_way: bool = False) -> list[Cut]:
        """Nothing passes from `side` to `other` (by default: everybody else), nor back unless `one_way`."""
        senders = [peer.me.peer for peer in side]
        if not other:
            inside = frozenset(senders)
            other = [peer for peer in self.live if peer.me.peer not in inside]
        receivers = [peer.me.peer for peer in other]
        cuts = [self.network.cut(senders, receivers)]
        if not one_way:
            cuts.append(self.network.cut(receivers, senders))
        self.trace.note(self.now, "network", f"cut {len(senders)} x {len(receivers)}")
        return cuts

    def heal(self, cuts: Sequence[Cut] | None = None) -> None:
        """Undo some cuts, or all of them."""
        for cut in [None] if cuts is None else cuts:
            self.network.heal(cut)
        self.trace.note(self.now, "network", "heals")

    def calm(self) -> None:
        """No more faults, cuts healed, nobody paused: from here on the ring must recover."""
        self._mishaps.stop()
        self.network.faults = Faults(hints=self.network.faults.hints)
        self.heal()
        for peer in self.live:
            if peer.state is State.PAUSED:
                self.resume(peer)

    # Questions about all of it.

    def watch(self, effect: type, watcher: Watcher) -> None:
        """Show every effect of a type to `watcher(peer, effect, now)`."""
        self._watchers.setdefault(effect, []).append(watcher)

    def route(self, key: Key, source: SimPeer | None = None) -> Delivery:
        """Send a message from `source`, or some peer, towards the owner of `key`."""
        return self.deliveries.send(source or self.some_live(1)[0], key, self.now)

    def random_key(self) -> Key:
        return Key(self._rng.getrandbits(ID_BITS))

    def wrong_leaf_sets(self) -> list[WrongLeafSet]:
        """Every live peer whose leaf set is not exact."""
        return wrong_leaf_sets(self.live, self.census, self.settings.leaves)

    @property
    def leaf_sets_exact(self) -> float:
        """Share of live peers whose leaf set equals brute force."""
        return 1.0 - len(self.wrong_leaf_sets()) / max(len(self.live), 1)

    @property
    def is_settled(self) -> bool:
        """Has everyone joined, with an exact leaf set? Until then a newcomer owns nothing yet."""
        return len(self.joined) == len(self.live) and not self.wrong_leaf_sets()


def _words_of(predicate: Callable[[], bool]) -> str:
    code = getattr(predicate, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(predicate)
