"""Which peers shall hold the fragments of a part.

Neighbours first: what is near is stored and pulled back quickly. Of peers about equally near, the one that fails
less. At most `total - needed` fragments in one zone, so that a zone that loses its power takes nothing with it; if
there are too few zones for that, they are filled evenly and the choice says so. One fragment a peer; two only where
there are fewer peers than fragments, and the choice says that too. The first indices, which are the data itself, go
to the first in this order.

The same call replaces a holder: `keeping` are those that stay, `barred` those that refused or are gone.

Pure and without dice: the same candidates give the same holders, whatever their order.
Rejected: the leaf set (XOR neighbours are far apart in milliseconds; they own keys, not megabytes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import floor, log2
from typing import Final

from overlay.ids import PeerId, short

MTBF_POOR_S: Final = 3600.0
"""A peer that fails more often than every hour comes last, however near it is."""
_RTT_MS_LEAST: Final = 0.25
"""Below this, distance is noise."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A peer that might hold a fragment, as its neighbours know it."""

    peer: PeerId
    zone: str
    rtt_ms: float
    free_bytes: int
    mtbf_s: float


@dataclass(frozen=True, slots=True)
class Choice:
    """`holders[index]` holds that fragment. `notes` say what could not be had, as sentences."""

    holders: tuple[PeerId, ...]
    zones: tuple[str, ...]
    is_zone_safe: bool
    is_doubled: bool
    notes: tuple[str, ...]


class NoHolder(Exception):  # noqa: N818 (it says what is)
    """No candidate has room for a fragment."""


def choose(
    candidates: Iterable[Candidate],
    *,
    needed: int,
    total: int,
    fragment_bytes: int,
    keeping: Mapping[int, PeerId] | None = None,
    barred: Collection[PeerId] = (),
) -> Choice:
    """
    >>> near = [Candidate(PeerId(it), "attic", 1.0, 10**9, 1e6) for it in range(1, 5)]
    >>> far = [Candidate(PeerId(it), "cellar", 9.0, 10**9, 1e6) for it in range(5, 9)]
    >>> choose(far + near, needed=2, total=4, fragment_bytes=1000).holders
    (1, 2, 5, 6)
    """
    stay = dict(keeping or {})
    known = {it.peer: it for it in candidates}
    bench = Bench(known.values(), limit=total - needed, fragment_bytes=fragment_bytes)
    for peer in stay.values():
        bench.take(peer)
    for index in range(total):
        if index not in stay:
            stay[index] = bench.next(barred)
            bench.take(stay[index])

    holders = tuple(stay[index] for index in range(total))
    zones = tuple(known[it].zone if it in known else "" for it in holders)
    is_zone_safe = max(Counter(zones).values(), default=0) <= total - needed
    is_doubled = len(set(holders)) < total
    return Choice(holders, zones, is_zone_safe, is_doubled, tuple(_notes(holders, zones, needed)))


class Bench:
    """Who might come next, given who holds a fragment already."""

    def __init__(self, candidates: Iterable[Candidate], *, limit: int, fragment_bytes: int) -> None:
        self._ranked = sorted(candidates, key=_rank)
        self._zone_of = {it.peer: it.zone for it in self._ranked}
        self._limit = max(1, limit)
        self._fragment_bytes = fragment_bytes
        self._held: Counter[PeerId] = Counter()
        self._zones: Counter[str] = Counter()

    def take(self, peer: PeerId) -> None:
        self._held[peer] += 1
        self._zones[self._zone_of.get(peer, "")] += 1

    def give_back(self, peer: PeerId) -> None:
        self._held[peer] -= 1
        self._zones[self._zone_of.get(peer, "")] -= 1

    def holds(self, peer: PeerId) -> bool:
        return self._held[peer] > 0

    def next(self, barred: Collection[PeerId] = ()) -> PeerId:
        """One that holds none; within its zone's limit, else in the emptiest zone; the first in rank."""
        able = [it for it in self._ranked if it.peer not in barred and self._has_room(it)]
        if not able:
            size = self._fragment_bytes
            raise NoHolder(f"no peer has room for another fragment of {size} bytes: add a peer, or raise its quota")
        return min(able, key=self._burden).peer

    def _burden(self, it: Candidate) -> tuple[int, int]:
        in_zone = self._zones[it.zone]
        return (self._held[it.peer], in_zone if in_zone >= self._limit else 0)

    def _has_room(self, it: Candidate) -> bool:
        # What it holds of this part may not be in its free bytes yet.
        return it.free_bytes >= self._fragment_bytes * (self._held[it.peer] + 1)


def _rank(it: Candidate) -> tuple[bool, int, float, PeerId]:
    """Round-trip times within a factor of two count as equal; then the one that fails less comes first."""
    return (it.mtbf_s < MTBF_POOR_S, floor(log2(max(it.rtt_ms, _RTT_MS_LEAST))), -it.mtbf_s, it.peer)


def _notes(holders: tuple[PeerId, ...], zones: tuple[str, ...], needed: int) -> Iterable[str]:
    spare = len(holders) - needed
    for peer, held in sorted(Counter(holders).items()):
        if held > 1:
            yield f"peer {short(peer)} holds {held} fragments of one part: there are fewer peers than fragments"
    for zone, held in sorted(Counter(zones).items()):
        if held > spare:
            left = len(holders) - held
            yield f"if zone {zone or '-'} is lost, {left} of {needed} needed fragments are left: add peers elsewhere"
