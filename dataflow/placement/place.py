"""Lay an app's stages along its tree: where every instance goes, and why.

    source      on every peer that offers it: pinned
    stateless   near its source, a copy for each peer that offers it: the k-th such stage at hop k of that peer's
                route, but no later than where routes meet. Several sources: where their routes meet first
    keyed       at the meeting point nearest to the sink, the rendezvous; further copies, each with its range of the
                key's hash, on the rendezvous' neighbourhood. What follows a keyed stage stays there too
    sink        on the peer that it is pinned to, else by its rendezvous

That names a peer of the tree, the *anchor*. An unpinned instance goes to the least loaded of the anchor and its leaf
set; among equals the anchor, then the anchor's zone, then who is nearer by id. If all of those are full, the other
hops of its routes and their leaf sets are tried, from the anchor outwards.

Promises: every instance is placed once, on a known peer with room for it; pins hold; the order in which routes and
candidates are given does not matter. Or `DoesNotFit`, which says which peer lacks what, and nothing is placed.
A source that joins or goes makes generation + 1 and moves nothing else.

Pure. Not here: partial aggregates where routes meet. No operator of the engine can hand on a half-made aggregate yet;
`tree.parents` names the meeting points for the day it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dataflow.hosting.assignment import PLACES_MAX, Assignment, InstanceId, Place, assigned
from dataflow.placement.candidates import Candidate, DoesNotFit, Room
from dataflow.placement.shape import COPIES_MAX, Kind, Shape
from dataflow.placement.tree import Route, rendezvous, trunk
from overlay.ids import PeerId, short

LACKS_TOLD_MAX: Final = 4
"""Peers named in one complaint: a person reads the first few."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where everything is, and a sentence for each instance that says why."""

    assignment: Assignment
    reasons: dict[InstanceId, str]


@dataclass(frozen=True, slots=True)
class _Wish:
    """An instance before it has a peer: the tree's peers to try, the anchor first."""

    instance: InstanceId
    what: str
    anchors: tuple[PeerId, ...]
    where: str
    memory_mib: int = 0
    is_pinned: bool = False
    is_further: bool = False


def place(
    app: str, shape: Shape, routes: Iterable[Route], candidates: Iterable[Candidate], *, generation: int = 1
) -> Placement:
    """Place every instance of an app, or raise `DoesNotFit`."""
    known = sorted(set(routes))
    wishes = [*_stage_wishes(shape, known), *_sink_wishes(shape, known)]
    if len(wishes) > PLACES_MAX:
        raise DoesNotFit(f"The app has {len(wishes)} instances; at most {PLACES_MAX} can be placed.")
    room = Room(candidates)
    places, reasons = [], {}
    # Pinned ones first: they have no choice, the others go around them.
    for wish in sorted(wishes, key=lambda it: (not it.is_pinned, it.instance.is_sink, it.instance)):
        peer, why = _pinned(wish, room) if wish.is_pinned else _least_loaded(wish, room)
        room.take(peer, wish.memory_mib)
        chosen = room.get(peer)
        assert chosen is not None
        places.append(Place(wish.instance, peer, chosen.boot_ms))
        reasons[wish.instance] = why
    return Placement(assigned(app, generation, places), dict(sorted(reasons.items())))


def with_source(before: Assignment, shape: Shape, route: Route, candidates: Iterable[Candidate]) -> Placement:
    """The next generation, in which one more peer offers a source. Asking again for one that is there is a mistake."""
    stage = _source_stage(shape, route.source)
    for instance in before.copies(stage):
        if before.peer_of(instance) == route.origin:
            raise ValueError(f'peer {short(route.origin)} feeds source "{route.source}" already')
    index = 1 + max((it.index for it in before.copies(stage)), default=-1)
    if len(before.places) >= PLACES_MAX:
        raise DoesNotFit(f"The app has {PLACES_MAX} instances already, and no more can be placed.")
    room = Room(candidates)
    wish = _source_wish(shape, stage, index, route.origin)
    peer, why = _pinned(wish, room)
    chosen = room.get(peer)
    assert chosen is not None
    places = [*before.places, Place(wish.instance, peer, chosen.boot_ms)]
    return Placement(assigned(before.app, before.generation + 1, places), {wish.instance: f"{why}, and joined later"})


def without_source(before: Assignment, shape: Shape, peer: PeerId) -> Assignment:
    """The next generation, without the sources of a peer that went away. The others keep their index and place."""
    sources = {at for at, stage in enumerate(shape.stages) if stage.kind is Kind.SOURCE}
    kept = [it for it in before.places if it.peer != peer or it.instance.stage not in sources]
    if len(kept) == len(before.places):
        raise ValueError(f"peer {short(peer)} feeds no source of app {before.app[:8]}")
    return assigned(before.app, before.generation + 1, kept)


# What goes where on the tree.


def _stage_wishes(shape: Shape, routes: Sequence[Route]) -> list[_Wish]:
    above, below, behind = shape.sources_above(), shape.sinks_below(), shape.is_behind_state()
    depth = _depths(shape)
    wishes: list[_Wish] = []
    for at, stage in enumerate(shape.stages):
        if stage.kind is Kind.SOURCE:
            origins = sorted({it.origin for it in routes if it.source == stage.name})
            if not origins:
                raise DoesNotFit(f'No peer offers source "{stage.name}"; bind it in the peer.toml of a device.')
            wishes += [_source_wish(shape, at, index, peer) for index, peer in enumerate(origins)]
            continue
        names = {shape.stages[it].name for it in above[at]}
        mine = _towards_one_sink(routes, names, below[at])
        what = f"{stage.kind.value} stage {at} ({stage.name})"
        tail = trunk(mine) or (rendezvous(mine),)
        if behind[at]:
            anchors = _outwards(tuple(reversed(tail)), mine)
            where = "the rendezvous, where all its routes have met"
            wishes += _copies(at, what, anchors, where, stage.parallelism, stage.memory_mib)
        elif len(names) > 1:
            where = "the first peer where the routes of its sources meet"
            wishes += _copies(at, what, _outwards(tail, mine), where, stage.parallelism, stage.memory_mib)
        else:
            wishes += _near_sources(at, what, mine, len(tail), depth[at], stage.parallelism, stage.memory_mib)
    return wishes


def _copies(stage: int, what: str, anchors: tuple[PeerId, ...], where: str, many: int, memory_mib: int) -> list[_Wish]:
    return [
        _Wish(InstanceId(stage, index), what, anchors, where, memory_mib, is_further=index > 0) for index in range(many)
    ]


def _outwards(first: tuple[PeerId, ...], routes: Sequence[Route]) -> tuple[PeerId, ...]:
    """These, then all other hops, those next to the rendezvous first: where to look when the anchor's are full."""
    away: dict[PeerId, int] = {}
    for route in routes:
        for back, peer in enumerate(reversed(route.hops)):
            away[peer] = min(back, away.get(peer, back))
    return tuple(dict.fromkeys((*first, *sorted(away, key=lambda peer: (away[peer], peer)))))


def _near_sources(
    stage: int, what: str, routes: Sequence[Route], shared: int, depth: int, many: int, memory_mib: int
) -> list[_Wish]:
    """A copy for each peer that offers the source (the i-th writer feeds the i-th copy), or as many as asked for."""
    by_origin = {route.origin: route for route in sorted(routes, reverse=True)}
    ways = [by_origin[origin] for origin in sorted(by_origin)]
    copies = many if many > 1 else min(len(ways), COPIES_MAX)
    wishes = []
    for index in range(copies):
        hops = ways[index % len(ways)].hops
        # Not past the first meeting point; with one route there is none, and the rendezvous is left to keyed stages.
        last = len(hops) - (shared if len(ways) > 1 else 1)
        hop = min(depth, max(last, 0), len(hops) - 1)
        anchors = (*hops[hop:], *reversed(hops[:hop]))
        where = f"hop {hop} of the route from source peer {short(hops[0])}"
        wishes.append(_Wish(InstanceId(stage, index), what, anchors, where, memory_mib))
    return wishes


def _sink_wishes(shape: Shape, routes: Sequence[Route]) -> list[_Wish]:
    above = shape.sources_above()
    wishes = []
    for k, sink in enumerate(shape.sinks):
        what = f'sink "{sink.name}"'
        instance = InstanceId(-1 - k, 0)
        if sink.pin is not None:
            wishes.append(_Wish(instance, what, (sink.pin,), "the peer that the app names for it", is_pinned=True))
            continue
        names = {shape.stages[it].name for it in above[sink.reads]}
        mine = _towards_one_sink(routes, names, frozenset({sink.name}))
        anchors = _outwards(tuple(reversed(trunk(mine))) or (rendezvous(mine),), mine)
        wishes.append(_Wish(instance, what, anchors, "the rendezvous of its key"))
    return wishes


def _source_wish(shape: Shape, stage: int, index: int, peer: PeerId) -> _Wish:
    it = shape.stages[stage]
    where = "the peer that offers it"
    return _Wish(InstanceId(stage, index), f'source "{it.name}"', (peer,), where, it.memory_mib, is_pinned=True)


def _source_stage(shape: Shape, name: str) -> int:
    for at, stage in enumerate(shape.stages):
        if stage.kind is Kind.SOURCE and stage.name == name:
            return at
    raise ValueError(f'the app has no source "{name}"')


def _depths(shape: Shape) -> list[int]:
    """How many stages lie between a stage and its farthest source."""
    depths: list[int] = []
    for stage in shape.stages:
        depths.append(max((depths[it] + 1 for it in stage.inputs), default=0))
    return depths


def _towards_one_sink(routes: Sequence[Route], sources: set[str], sinks: frozenset[str]) -> list[Route]:
    """The routes of these sources to the first of these sinks that any leads to: one stage has one tree."""
    for sink in sorted(sinks):
        mine = [it for it in routes if it.source in sources and it.sink == sink]
        if mine:
            return mine
    # A stage that no sink reads, or whose sink was not asked for by itself: any way of its sources will do.
    mine = [it for it in routes if it.source in sources]
    if not mine:
        raise DoesNotFit(f"No peer offers any of the sources {', '.join(sorted(sources))}; see: peer offers")
    first = min(it.sink for it in mine)
    return [it for it in mine if it.sink == first]


# Who of those around the tree.


def _pinned(wish: _Wish, room: Room) -> tuple[PeerId, str]:
    peer = wish.anchors[0]
    lack = room.lack(peer, wish.memory_mib)
    if lack is not None:
        raise DoesNotFit(f"There is no room for {wish.what}, which must be on one peer: {lack}.")
    return peer, f"{wish.what} is on {wish.where}"


def _least_loaded(wish: _Wish, room: Room) -> tuple[PeerId, str]:
    """The least loaded of an anchor and those around it, the first anchor that has any with room."""
    lacks: dict[PeerId, str] = {}
    for away, anchor in enumerate(wish.anchors):
        it = room.get(anchor)
        around = () if it is None else (it.near or it.leaves) if wish.is_further else it.leaves
        zone = None if it is None else it.zone
        fits = []
        for peer in dict.fromkeys((anchor, *around)):
            lack = room.lack(peer, wish.memory_mib)
            if lack is None:
                fits.append(peer)
            else:
                lacks[peer] = lack
        if fits:
            peer = min(
                fits, key=lambda peer: (room.load(peer), peer != anchor, _is_elsewhere(room, peer, zone), peer ^ anchor)
            )
            return peer, _why(wish, room, peer, anchor=anchor, of=len(fits), away=away)
    told = "; ".join(lacks[peer] for peer in sorted(lacks)[:LACKS_TOLD_MAX])
    more = f"; and {len(lacks) - LACKS_TOLD_MAX} more" if len(lacks) > LACKS_TOLD_MAX else ""
    raise DoesNotFit(f"There is no room for {wish.what} on its routes or near them: {told}{more}.")


def _is_elsewhere(room: Room, peer: PeerId, zone: str | None) -> bool:
    it = room.get(peer)
    return it is None or it.zone != zone


def _why(wish: _Wish, room: Room, peer: PeerId, *, anchor: PeerId, of: int, away: int) -> str:
    is_by = "is on" if peer == anchor else f"is near peer {short(anchor)},"
    where = wish.where if away == 0 else f"the nearest hop with room, {away} from {wish.where}"
    around = "its neighbourhood" if wish.is_further else "its leaf set"
    load = f"{room.load(peer):.2f}"
    return f"{wish.what} {is_by} {where}: load {load}, the least of the {of} with room among that peer and {around}"
