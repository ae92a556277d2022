"""Launch apps in a still ring, on virtual time, with the product's own search, placement and ledgers.

One launch:  search   the launcher asks for a scheduler: each question is routed to a peer's id, hop by hop; a full
                      scheduler hands it on to its successor in one hop
             queue    a scheduler works on one app at a time, in the order in which they came
             join     it tells the peers that offer the sources; each routes a JOIN to the sink's key
             reserve  on every peer of the placement; if one refuses, all are released and it is placed once more
             start    and the app is deployed when the last peer has heard it

What is assumed, because nothing here measures it:
  - a message takes 1 ms within a zone and 20 ms between two, and is not lost
  - a scheduler, or the master, works 40 ms on an app and 2 ms more for each of its operators: to load the bundle, to
    make the plan, to check it. Both are given the same
  - gossip names a change to everybody in the zone at once, but only after `period_s * (log2 N + 4)`, the time that news
    takes by its own rule; until then digests are as before
  - schedulers know the load of the peers around a route as of now (heartbeats tell it within seconds)
  - every peer has 8 slots

The single master knows everybody: it needs no search and no JOIN, one message each way, and is never lost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from dataflow.hosting.assignment import Assignment
from dataflow.placement.candidates import Candidate, DoesNotFit
from dataflow.placement.ledger import Granted, Ledger, Need, Refused
from dataflow.placement.place import place
from dataflow.placement.scheduler import Accepted, Scheduler
from dataflow.placement.search import Ask, Found, Search
from dataflow.placement.shape import Kind, Shape, SinkShape, StageShape
from dataflow.placement.tree import Route
from overlay.digest import Member, ZoneDigest
from overlay.gossip import GossipSettings
from overlay.ids import PeerId, key_of
from sim.heap import EventHeap
from sim.latency import Zoned
from sim.still_ring import StillRing

SLOTS: Final = 8
APP_MS: Final = 40.0
OPERATOR_MS: Final = 2.0
ATTEMPTS_MAX: Final = 3
"""Placements of one app before the launch fails: twice somebody else was quicker."""
WITHIN_MS: Final = 1.0
BETWEEN_MS: Final = 20.0
OPERATORS: Final = (5, 15)


@dataclass(slots=True)
class Launch:
    """One app on its way."""

    app: str
    shape: Shape
    launcher: PeerId
    origins: dict[str, PeerId]
    asked_at: float = 0.0
    search_hops: int = 0
    scheduler: PeerId | None = None
    queued_at: float = 0.0
    begun_at: float = 0.0
    deployed_at: float | None = None
    attempts: int = 0
    error: str = ""
    assignment: Assignment | None = None
    waiting_for: int = 0
    refusals: list[str] = field(default_factory=list)


def an_app(rng: Random) -> Shape:
    """An app of 5 to 15 operators, sources and sink included: chains from one to three sources that meet."""
    operators = rng.randint(*OPERATORS)
    sources = rng.randint(1, min(3, operators - 3))
    stages = [StageShape(Kind.SOURCE, f"source-{at}") for at in range(sources)]
    ends = list(range(sources))
    for at in range(operators - sources - 1):
        left = operators - sources - 1 - at
        if len(ends) > 1 and (left == 1 or rng.random() < 0.3):
            inputs, kind = tuple(sorted(ends)), Kind.KEYED
            ends = []
        else:
            inputs, kind = (ends.pop(rng.randrange(len(ends))),), rng.choice([Kind.STATELESS, Kind.KEYED])
        ends.append(len(stages))
        stages.append(StageShape(kind, f"step-{at}", inputs))
    return Shape(tuple(stages), (SinkShape("out", ends[-1]),))


class Launches:
    """A ring, its schedulers and ledgers, and the launches under way."""

    def __init__(self, ring: StillRing, *, master: PeerId | None = None, with_leaves: bool = True) -> None:
        self.heap = EventHeap()
        self.done: list[Launch] = []
        self.ledgers: dict[PeerId, Ledger] = {}
        self.schedulers: dict[PeerId, Scheduler] = {}
        self._ring = ring
        self._master = master
        self._with_leaves = with_leaves
        self._latency = Zoned(WITHIN_MS, BETWEEN_MS)
        self._busy_until: dict[PeerId, float] = {}
        self._version = 1
        self._said: dict[PeerId, bool] = {}
        self._zones: dict[int, ZoneDigest] = {}
        for peer in ring.peers:
            digest = self._zones.setdefault(ring.zone_of[peer], ZoneDigest())
            digest.add(Member(peer, SLOTS, 0, False, 0, 0.0))
        self.gossip_lag_s = GossipSettings().period_s * (math.log2(max(len(ring.peers), 2)) + 4)

    def launch(self, it: Launch, at: float) -> None:
        self.heap.put(at, self._begin, it)

    def operators(self) -> dict[PeerId, int]:
        """How many operators each peer hosts."""
        return {peer: ledger.slots_used for peer, ledger in self.ledgers.items()}

    # Search.

    def _begin(self, it: Launch, now: float) -> None:
        it.asked_at = now
        if self._master is not None:
            self.heap.put(now + self._way_s((it.launcher, self._master)), self._queue, (it, self._master))
            return
        search = Search(it.app, self._zones[self._ring.zone_of[it.launcher]], peers=len(self._ring.peers))
        self._ask_next((it, search), now)

    def _ask_next(self, event: tuple[Launch, Search], now: float) -> None:
        it, search = event
        ask = search.next()
        if ask is None:
            if not isinstance(search.outcome, Found):
                self._fail(it, str(search.outcome))
            return
        way = (ask.by, ask.peer) if ask.by is not None else self._ring.route(it.launcher, ask.peer)
        it.search_hops += len(way) - 1
        self.heap.put(now + self._way_s(way), self._on_ask, (it, search, ask))

    def _on_ask(self, event: tuple[Launch, Search, Ask], now: float) -> None:
        it, search, ask = event
        scheduler = self._scheduler(ask.peer)
        answer = scheduler.ask(it.app, elect=ask.elect, avoid=search.avoid)
        self._say(ask.peer, now)
        search.on_answer(ask.peer, answer)
        if not isinstance(answer, Accepted):
            self._ask_next((it, search), now)
            return
        if answer.successor is not None:
            passed = (answer.successor, scheduler.passed)
            self.heap.put(now + self._way_s((ask.peer, answer.successor)), self._on_elected, passed)
        self._queue((it, ask.peer), now)

    def _on_elected(self, event: tuple[PeerId, frozenset[PeerId]], now: float) -> None:
        peer, passed = event
        self._scheduler(peer).elect(passed)
        self._say(peer, now)

    def _scheduler(self, peer: PeerId) -> Scheduler:
        if peer not in self.schedulers:
            zone = self._zones[self._ring.zone_of[peer]]
            self.schedulers[peer] = Scheduler(peer, lambda: zone)
        return self.schedulers[peer]

    def _say(self, peer: PeerId, now: float) -> None:
        """Gossip, if there is news: the zone knows it some time later."""
        is_open = self.schedulers[peer].is_open
        if self._said.get(peer, False) != is_open:
            self._said[peer] = is_open
            self._version += 1
            word = Member(peer, SLOTS, 0, is_open, self._version, 0.0)
            self.heap.put(now + self.gossip_lag_s, self._hear, word)

    def _hear(self, word: Member, now: float) -> None:
        self._zones[self._ring.zone_of[word.peer]].add(word)

    # Work.

    def _queue(self, event: tuple[Launch, PeerId], now: float) -> None:
        it, peer = event
        it.scheduler, it.queued_at = peer, now
        it.begun_at = max(now, self._busy_until.get(peer, 0.0))
        operators = len(it.shape.stages) + len(it.shape.sinks)
        self._busy_until[peer] = it.begun_at + (APP_MS + OPERATOR_MS * operators) / 1000
        self.heap.put(self._busy_until[peer], self._join, it)

    def _join(self, it: Launch, now: float) -> None:
        assert it.scheduler is not None
        key = key_of(f"{it.app}/{it.shape.sinks[0].name}")
        routes = [Route(name, "out", self._ring.route(peer, key)) for name, peer in sorted(it.origins.items())]
        longest_s = 0.0
        if self._master is None:
            longest_s = max(self._way_s((it.scheduler, *way.hops, it.scheduler)) for way in routes)
        self.heap.put(now + longest_s, self._place, (it, routes))

    def _place(self, event: tuple[Launch, Sequence[Route]], now: float) -> None:
        it, routes = event
        it.attempts += 1
        it.refusals.clear()
        try:
            it.assignment = place(it.app, it.shape, routes, self._candidates(routes)).assignment
        except DoesNotFit as error:
            self._fail(it, str(error))
            return
        peers = it.assignment.peers()
        it.waiting_for = len(peers)
        assert it.scheduler is not None
        for peer in peers:
            self.heap.put(now + self._way_s((it.scheduler, peer)), self._reserve, (it, routes, peer))

    def _candidates(self, routes: Sequence[Route]) -> list[Candidate]:
        hops = sorted({hop for route in routes for hop in route.hops})
        around = {hop: self._ring.leaves(hop) if self._with_leaves else () for hop in hops}
        everybody = sorted({*hops, *(leaf for leaves in around.values() for leaf in leaves)})
        return [
            Candidate(peer, 1, str(self._ring.zone_of[peer]), SLOTS, self._used(peer), leaves=around.get(peer, ()))
            for peer in everybody
        ]

    def _used(self, peer: PeerId) -> int:
        return self.ledgers[peer].slots_used if peer in self.ledgers else 0

    def _reserve(self, event: tuple[Launch, Sequence[Route], PeerId], now: float) -> None:
        it, routes, peer = event
        assert it.assignment is not None and it.scheduler is not None
        ledger = self.ledgers.setdefault(peer, Ledger(slots=SLOTS))
        answer = ledger.reserve(it.app, it.attempts, Need(len(it.assignment.on(peer))), now)
        back_s = self._way_s((peer, it.scheduler))
        self.heap.put(now + back_s, self._on_reserved, (it, routes, answer))

    def _on_reserved(self, event: tuple[Launch, Sequence[Route], Granted | Refused], now: float) -> None:
        it, routes, answer = event
        assert it.assignment is not None and it.scheduler is not None
        it.waiting_for -= 1
        if isinstance(answer, Refused):
            it.refusals.append(answer.lack)
        if it.waiting_for:
            return
        peers = it.assignment.peers()
        if not it.refusals:
            it.waiting_for = len(peers)
            for peer in peers:
                self.heap.put(now + self._way_s((it.scheduler, peer)), self._start, (it, peer))
            return
        for peer in peers:
            self.heap.put(now + self._way_s((it.scheduler, peer)), self._release, (it.app, it.attempts, peer))
        if it.attempts == ATTEMPTS_MAX:
            self._fail(it, f"A peer {it.refusals[0]}.")
        else:
            # After the releases: its own holds must not stand in its way.
            self.heap.put(now + 2 * BETWEEN_MS / 1000, self._place, (it, routes))

    def _release(self, event: tuple[str, int, PeerId], now: float) -> None:
        app, generation, peer = event
        self.ledgers[peer].release(app, generation)

    def _start(self, event: tuple[Launch, PeerId], now: float) -> None:
        it, peer = event
        answer = self.ledgers[peer].start(it.app, it.attempts, now)
        assert isinstance(answer, Granted), "no message is lost and no start is late here"
        it.waiting_for -= 1
        if not it.waiting_for:
            it.deployed_at = now
            self.done.append(it)

    def _fail(self, it: Launch, error: str) -> None:
        it.error = error
        self.done.append(it)

    def _way_s(self, hops: Sequence[PeerId]) -> float:
        zones = [self._ring.zone_of[it] for it in hops]
        pairs = zip(hops, hops[1:], zones, zones[1:], strict=False)
        return sum(self._latency.one_way_s(here, there) for a, b, here, there in pairs if a != b)


def launches_of(ring: StillRing, apps: int, rng: Random) -> list[Launch]:
    """Apps, each launched by a random peer, its sources offered by peers of the launcher's zone."""
    by_zone: dict[int, list[PeerId]] = {}
    for peer in ring.peers:
        by_zone.setdefault(ring.zone_of[peer], []).append(peer)
    found = []
    for number in range(apps):
        launcher = ring.peers[rng.randrange(len(ring.peers))]
        shape = an_app(rng)
        names = [it.name for it in shape.stages if it.kind is Kind.SOURCE]
        origins = rng.choices(by_zone[ring.zone_of[launcher]], k=len(names))
        found.append(Launch(f"app-{number}", shape, launcher, dict(zip(names, origins, strict=True))))
    return found


def assumptions() -> dict[str, Any]:
    """What is assumed rather than measured: part of every report."""
    return {
        "slots_per_peer": SLOTS,
        "service_ms_per_app": APP_MS,
        "service_ms_per_operator": OPERATOR_MS,
        "one_way_ms_within_zone": WITHIN_MS,
        "one_way_ms_between_zones": BETWEEN_MS,
    }
