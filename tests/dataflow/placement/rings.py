"""Rings, routes and apps for tests of placement: drawn by Hypothesis, small, with true owners and leaf sets."""

from dataclasses import dataclass

from hypothesis import strategies as st

from dataflow.placement.candidates import Candidate
from dataflow.placement.shape import Kind, Shape, SinkShape, StageShape
from dataflow.placement.tree import Route
from overlay.ids import Key, PeerId, key_of
from overlay.leafset import nearest_by_brute_force


@dataclass(frozen=True)
class Case:
    """An app that wants a place in a ring."""

    shape: Shape
    routes: tuple[Route, ...]
    candidates: tuple[Candidate, ...]


def candidates_of(peers, *, leaves=4, slots=lambda peer: 4, used=lambda peer: 0):
    return tuple(
        Candidate(
            peer,
            boot_ms=int(peer % 1000),
            zone=f"zone-{peer % 3}",
            slots=slots(peer),
            slots_used=used(peer),
            leaves=tuple(nearest_by_brute_force(peer, peers, leaves)),
        )
        for peer in peers
    )


def route_through(peers, origin, key, take):
    """A route as the overlay makes them: each hop strictly nearer; `take` chooses who of the nearer ones."""
    hops = [origin]
    while nearer := [it for it in sorted(peers, key=lambda it: it ^ key) if it ^ key < hops[-1] ^ key]:
        hops.append(take(nearer))
    return tuple(hops)


@st.composite
def shapes(draw):
    sources = draw(st.integers(1, 3))
    stages = [StageShape(Kind.SOURCE, f"source-{at}") for at in range(sources)]
    for at in range(draw(st.integers(0, 6))):
        inputs = tuple(sorted(draw(st.sets(st.integers(0, len(stages) - 1), min_size=1, max_size=2))))
        kind = draw(st.sampled_from([Kind.STATELESS, Kind.KEYED]))
        stages.append(StageShape(kind, f"step-{at}", inputs, draw(st.integers(1, 3)), draw(st.sampled_from([0, 64]))))
    reads = draw(st.lists(st.integers(0, len(stages) - 1), min_size=1, max_size=2))
    return Shape(tuple(stages), tuple(SinkShape(f"sink-{at}", stage) for at, stage in enumerate(reads)))


@st.composite
def cases(draw, slots_max=30):
    peers = [PeerId(Key(it)) for it in sorted(draw(st.sets(st.integers(0, 2**160 - 1), min_size=2, max_size=12)))]
    room = {it: draw(st.integers(2, slots_max)) for it in peers}
    used = {it: draw(st.integers(0, room[it] // 2)) for it in peers}
    shape = draw(shapes())
    if draw(st.booleans()):
        first, *others = shape.sinks
        shape = Shape(shape.stages, (SinkShape(first.name, first.reads, draw(st.sampled_from(peers))), *others))
    routes = []
    for stage in shape.stages:
        if stage.kind is Kind.SOURCE:
            for origin in sorted(draw(st.sets(st.sampled_from(peers), min_size=1, max_size=3))):
                for sink in shape.sinks:
                    key = sink.pin if sink.pin is not None else key_of(sink.name)
                    hops = route_through(peers, origin, key, lambda nearer: draw(st.sampled_from(nearer)))
                    routes.append(Route(stage.name, sink.name, hops))
    candidates = candidates_of(peers, slots=room.get, used=used.get)
    return Case(shape, tuple(routes), candidates)
