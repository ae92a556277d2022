"""The tree that grows where JOINs meet: recorded routes, linked backwards from the sink to the sources.

Every peer that offers a source routes a JOIN to the sink's key. Each hop is strictly nearer to that key, so routes that
meet may part again but cannot loop, and all of them end at the key's owner, the rendezvous.

    route of a:   a  p  m  r           trunk of {a, b} = (m, r): the tail that all of them share.
    route of b:   b  q  m  r           Its first peer is where they meet, its last the rendezvous.

Pure. Rejected: one path per pair of stages (routes of one app then never meet, and rows cross the ring at each step).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from overlay.ids import PeerId


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """The way of one JOIN: from a peer that offers `source` to the owner of the key of `sink`."""

    source: str
    sink: str
    hops: tuple[PeerId, ...]
    """Origin first, rendezvous last. An origin that owns the key is both."""

    def __post_init__(self) -> None:
        if not self.hops or len(set(self.hops)) != len(self.hops):
            raise ValueError("a route names at least its origin, and no peer twice")

    @property
    def origin(self) -> PeerId:
        return self.hops[0]


def trunk(routes: Sequence[Route]) -> tuple[PeerId, ...]:
    """The tail that all routes share. Empty only if they end at different owners: then the ring was changing.

    >>> from overlay.ids import Key
    >>> ways = [[1, 3, 5], [2, 3, 5], [5]]
    >>> routes = [Route("a", "s", tuple(PeerId(Key(hop)) for hop in way)) for way in ways]
    >>> trunk(routes[:2]), trunk(routes)
    ((3, 5), (5,))
    """
    if not routes:
        return ()
    shared = routes[0].hops
    for route in routes[1:]:
        same = 0
        for mine, other in zip(reversed(shared), reversed(route.hops), strict=False):
            if mine != other:
                break
            same += 1
        shared = shared[len(shared) - same :]
    return shared


def parents(routes: Iterable[Route]) -> dict[PeerId, tuple[PeerId, ...]]:
    """The tree of one sink: for each peer, whom it hands on to. More than one where routes part again."""
    found: dict[PeerId, set[PeerId]] = {}
    for route in routes:
        for hop, following in zip(route.hops, route.hops[1:], strict=False):
            found.setdefault(hop, set()).add(following)
    return {peer: tuple(sorted(found[peer])) for peer in sorted(found)}


def rendezvous(routes: Sequence[Route]) -> PeerId:
    """Where a sink's routes end: the peer that most of them name, for the ring may have changed meanwhile."""
    ends: dict[PeerId, int] = {}
    for route in routes:
        ends[route.hops[-1]] = ends.get(route.hops[-1], 0) + 1
    return min(ends, key=lambda peer: (-ends[peer], peer))
