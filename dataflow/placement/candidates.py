"""Peers that could host an instance, as the scheduler knows them, and how full each is while it places.

Load is the larger of two shares: slots in use, and cores that are busy. The second is measured and restless, so it
counts in tenths: a hundredth more or less must not move an instance away from its route.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from overlay.ids import PeerId, short


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live peer: what it has, what is in use, and who is near it."""

    peer: PeerId
    boot_ms: int = 0
    zone: str = ""
    slots: int = 1
    slots_used: int = 0
    load: float = 0.0
    memory_free_mib: int | None = None
    """Memory that is left; None where nobody said."""
    leaves: tuple[PeerId, ...] = ()
    near: tuple[PeerId, ...] = ()
    """Its neighbourhood, quickest first: further copies go there."""


class DoesNotFit(Exception):  # noqa: N818  # it reads as a sentence, and is what the user is told
    """The app cannot be placed; the message says which peer lacks what."""


class Room:
    """What is left of each candidate while an app is being placed."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._known = {it.peer: it for it in sorted(candidates, key=lambda it: (it.peer, it.boot_ms))}
        self._placed: dict[PeerId, int] = {}
        self._memory_mib: dict[PeerId, int] = {}

    def get(self, peer: PeerId) -> Candidate | None:
        return self._known.get(peer)

    def take(self, peer: PeerId, memory_mib: int) -> None:
        self._placed[peer] = self._placed.get(peer, 0) + 1
        self._memory_mib[peer] = self._memory_mib.get(peer, 0) + memory_mib

    def load(self, peer: PeerId) -> float:
        it = self._known[peer]
        used = (it.slots_used + self._placed.get(peer, 0)) / max(it.slots, 1)
        return max(used, int(it.load * 10) / 10)

    def lack(self, peer: PeerId, memory_mib: int) -> str | None:
        """Why an instance does not fit on a peer; None if it does."""
        it = self._known.get(peer)
        if it is None:
            return f"peer {short(peer)} is not known to live"
        used = it.slots_used + self._placed.get(peer, 0)
        if used >= it.slots:
            return f"peer {short(peer)} lacks a slot ({used} of {it.slots} are in use)"
        left_mib = it.memory_free_mib
        if left_mib is not None and self._memory_mib.get(peer, 0) + memory_mib > left_mib:
            left_mib -= self._memory_mib.get(peer, 0)
            return f"peer {short(peer)} lacks memory ({memory_mib} MiB are needed, {left_mib} MiB are left)"
        return None
