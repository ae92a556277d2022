"""Find a scheduler for an app: first whom gossip names, then whom those name, at last by electing one.

    Ask(peer, elect=False)   an open scheduler of our zone, as gossip has it
    Ask(peer, elect=True)    the successor that a full one named, or whom we elect because nobody is left to ask

A machine: `next` says whom to ask, `on_answer` and `on_silence` what came of it. Who was full or silent is not asked
again, so a search ends. It asks at most ceil(log16 N) peers before it elects; if `SILENT_MAX` of the zone's peers do
not answer, it is we who are cut off.

The same search serves an app whose scheduler died: `avoid` then names the dead.
Pure. Rejected: asking all at once (each would count the app against its fifty).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dataflow.placement.scheduler import Accepted, Answer, Full, elected, hops_max
from overlay.digest import ZoneDigest, rank
from overlay.ids import PeerId

SILENT_MAX: Final = 6
"""Peers that did not answer before we give up: each costs the wait for an answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask `peer` to take the app."""

    peer: PeerId
    elect: bool
    by: PeerId | None = None
    """The full scheduler that named it, and hands the question on itself; None if we ask."""


@dataclass(frozen=True, slots=True)
class Found:
    """The app's scheduler."""

    peer: PeerId
    asks: int
    was_elected: bool


@dataclass(frozen=True, slots=True)
class NobodyFound:
    """No peer of the zone answered."""

    asks: int

    def __str__(self) -> str:
        return f"None of {self.asks} peers of this zone answered as scheduler; look at: peer peers"


class Search:
    """One app in search of its scheduler. `peers` is how many the ring has, as far as we know."""

    def __init__(self, app: str, zone: ZoneDigest, *, peers: float, avoid: Iterable[PeerId] = ()) -> None:
        self.app = app
        self.outcome: Found | NobodyFound | None = None
        self._zone = zone
        self._asks_max = hops_max(peers)
        self._avoid = set(avoid)
        self._named = sorted(set(zone.totals().schedulers) - self._avoid, key=rank)
        self._successors: list[tuple[PeerId, PeerId]] = []
        self._asks = 0
        self._silent = 0
        self._asked: Ask | None = None

    @property
    def avoid(self) -> frozenset[PeerId]:
        """Who is full, silent or dead, as far as we know."""
        return frozenset(self._avoid)

    def next(self) -> Ask | None:
        """Whom to ask now; None once there is an outcome, or while an answer is awaited."""
        if self.outcome is not None or self._asked is not None:
            return None
        self._asked = self._choose()
        if self._asked is None:
            self.outcome = NobodyFound(self._asks)
        else:
            self._asks += 1
        return self._asked

    def on_answer(self, peer: PeerId, answer: Answer) -> None:
        """What the peer that we asked said. Anybody else's word is ignored."""
        asked = self._asked
        if asked is None or asked.peer != peer:
            return
        self._asked = None
        if isinstance(answer, Accepted):
            self.outcome = Found(peer, self._asks, asked.elect)
            return
        self._avoid.add(peer)
        if isinstance(answer, Full) and answer.successor is not None:
            self._successors.append((answer.successor, peer))

    def on_silence(self, peer: PeerId) -> None:
        if self._asked is not None and self._asked.peer == peer:
            self._asked = None
            self._silent += 1
            self._avoid.add(peer)

    def _choose(self) -> Ask | None:
        if self._silent == SILENT_MAX:
            return None
        if self._asks < self._asks_max:
            while self._successors:
                peer, by = self._successors.pop()
                if peer not in self._avoid:
                    return Ask(peer, elect=True, by=by)
            while self._named:
                peer = self._named.pop(0)
                if peer not in self._avoid:
                    return Ask(peer, elect=False)
        best = elected(self._zone, self._avoid)
        return None if best is None else Ask(best, elect=True)
