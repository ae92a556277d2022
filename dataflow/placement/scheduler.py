"""A peer that places apps for its zone: elected when one is needed, for at most fifty apps.

Any peer may be a scheduler; none is until somebody asks it. A launcher that finds no open scheduler in its zone elects
the peer with the most capacity by asking it to be one. A scheduler that takes its fiftieth app is full: it names a
successor, the next by capacity, which is elected at once, so that gossip has an open one to name before the next
launch; who still asks the full one is sent on. Gossip calls a peer a scheduler only while it is *open*, for the same
reason.

Everybody elects by the same rule from the same digest, so those who elect at the same time mostly elect the same peer;
where digests differ there is a scheduler more, which harms nobody: a scheduler owns nothing.

Promise: at most `apps_max` apps are registered here at a time, an app that asks again is not counted twice, and nothing
here touches an app that runs: if a scheduler dies, its apps go on, and search for another when they next need one.
Pure. Rejected: one leader for each zone by agreement (a quorum for something that may be wrong without harm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from overlay.digest import ZoneDigest, rank
from overlay.ids import DIGIT_VALUES, PeerId

APPS_MAX: Final = 50
"""Apps of one scheduler. Fewer: more schedulers to find; more: a longer queue when a zone launches all at once."""

PASSED_MAX: Final = 64
"""Full schedulers that a successor is told of: more than one zone's sample has members to elect from."""


def hops_max(peers: float) -> int:
    """How far a search may go in a ring of that many peers: as far as a route, ceil(log16 N).

    >>> hops_max(10_000), hops_max(256), hops_max(1)
    (4, 2, 1)
    """
    return max(1, math.ceil(round(math.log(max(peers, 1), DIGIT_VALUES), 9)))


def elected(digest: ZoneDigest, avoid: Collection[PeerId] = ()) -> PeerId | None:
    """Who becomes scheduler: the member with the most slots; of equals, the first in every sample.

    Slots, not free slots: those change with each app, and two launchers would elect two peers.
    """
    able = [it for it in digest.members if it.peer not in avoid]
    return min(able, key=lambda it: (-it.slots, rank(it.peer))).peer if able else None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The app is registered here. `successor`: that filled us; whoever carries this out asks it to be scheduler."""

    successor: PeerId | None = None


@dataclass(frozen=True, slots=True)
class Full:
    """Fifty apps are registered here. `successor` takes more; None if nobody else is known."""

    successor: PeerId | None


@dataclass(frozen=True, slots=True)
class NoScheduler:
    """I am none, and was not asked to become one."""


Answer = Accepted | Full | NoScheduler


class Scheduler:
    """One peer's part in it. `digest` gives what gossip knows of our zone at the moment."""

    def __init__(self, me: PeerId, digest: Callable[[], ZoneDigest], *, apps_max: int = APPS_MAX) -> None:
        self._me = me
        self._digest = digest
        self._apps_max = apps_max
        self._apps: set[str] = set()
        self._is_elected = False
        self._successor: PeerId | None = None
        self._passed: set[PeerId] = set()

    @property
    def is_scheduler(self) -> bool:
        return self._is_elected

    @property
    def is_open(self) -> bool:
        """Do we take apps? This is what gossip shall say of us."""
        return self._is_elected and len(self._apps) < self._apps_max

    @property
    def apps(self) -> tuple[str, ...]:
        return tuple(sorted(self._apps))

    def ask(self, app: str, *, elect: bool, avoid: Collection[PeerId] = ()) -> Answer:
        """Somebody wants us to place an app. `elect`: and be a scheduler for it. `avoid`: who did not answer."""
        if not self._is_elected and not elect:
            return NoScheduler()
        self._is_elected = True
        if app not in self._apps and not self.is_open:
            return Full(self._next(avoid))
        self._apps.add(app)
        return Accepted() if self.is_open else Accepted(self._next(avoid))

    @property
    def passed(self) -> frozenset[PeerId]:
        """Who was full before us, ourselves included: what a successor is told, so that it names none of them."""
        return frozenset({self._me, *self._passed})

    def elect(self, passed: Collection[PeerId]) -> None:
        """We are a scheduler from now on: one that is full named us."""
        self._is_elected = True
        self._passed.update(sorted(passed)[:PASSED_MAX])

    def ended(self, app: str) -> None:
        """An app is over. A scheduler without apps goes on being one: the next launch finds it."""
        self._apps.discard(app)

    def _next(self, avoid: Collection[PeerId]) -> PeerId | None:
        """Our successor: an open scheduler if gossip names one, else whom everybody would elect."""
        if self._successor is None or self._successor in avoid:
            digest, others = self._digest(), {self._me, *avoid}
            opened = [peer for peer in digest.totals().schedulers if peer not in others]
            self._successor = min(opened, key=rank) if opened else elected(digest, others | self._passed)
        return self._successor
