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
    ranked = sorted((it for it in known.values() if it.peer not in barred), key=_rank)
    free = [it for it in ranked if it.free_bytes >= fragment_bytes and it.peer not in stay.values()]
    zones = Counter(known[it].zone for it in stay.values() if it in known)
    wanted = total - len(stay)

    picked = _within_the_limit(free, zones, wanted, limit=max(1, total - needed))
    picked += _evenly([it for it in free if it not in picked], zones, wanted - len(picked))
    doubled = _twice(ranked, [*stay.values(), *(it.peer for it in picked)], wanted - len(picked), fragment_bytes)

    places = iter([*(it.peer for it in picked), *doubled])
    holders = tuple(stay[index] if index in stay else next(places) for index in range(total))
    their_zones = tuple(known[it].zone if it in known else "" for it in holders)
    most = max(Counter(their_zones).values(), default=0)
    is_zone_safe = most <= total - needed
    is_doubled = len(set(holders)) < total
    return Choice(holders, their_zones, is_zone_safe, is_doubled, tuple(_notes(holders, their_zones, needed)))


def _rank(it: Candidate) -> tuple[bool, int, float, PeerId]:
    """Round-trip times within a factor of two count as equal; then the one that fails less comes first."""
    return (it.mtbf_s < MTBF_POOR_S, floor(log2(max(it.rtt_ms, _RTT_MS_LEAST))), -it.mtbf_s, it.peer)


def _within_the_limit(free: list[Candidate], zones: Counter[str], wanted: int, *, limit: int) -> list[Candidate]:
    picked: list[Candidate] = []
    for it in free:
        if len(picked) < wanted and zones[it.zone] < limit:
            zones[it.zone] += 1
            picked.append(it)
    return picked


def _evenly(free: list[Candidate], zones: Counter[str], wanted: int) -> list[Candidate]:
    """The limit cannot be kept: the zone with the fewest fragments is next."""
    picked: list[Candidate] = []
    while len(picked) < wanted and len(picked) < len(free):
        it = min((each for each in free if each not in picked), key=lambda each: (zones[each.zone], _rank(each)))
        zones[it.zone] += 1
        picked.append(it)
    return picked


def _twice(ranked: list[Candidate], holders: list[PeerId], wanted: int, fragment_bytes: int) -> list[PeerId]:
    """There are fewer peers than fragments: whoever holds the fewest takes one more."""
    held = Counter(holders)
    added: list[PeerId] = []
    while len(added) < wanted:
        # What a holder has of this part already is not in its free bytes yet.
        able = [it for it in ranked if it.free_bytes >= fragment_bytes * (held[it.peer] + 1)]
        if not able:
            lacking = f"{wanted - len(added)} of {len(holders) + wanted} fragments of {fragment_bytes} bytes"
            raise NoHolder(f"no peer has room for {lacking}: add a peer, or raise its quota")
        least = min(able, key=lambda it: (held[it.peer], _rank(it))).peer
        held[least] += 1
        added.append(least)
    return added


def _notes(holders: tuple[PeerId, ...], zones: tuple[str, ...], needed: int) -> Iterable[str]:
    spare = len(holders) - needed
    for peer, held in sorted(Counter(holders).items()):
        if held > 1:
            yield f"peer {short(peer)} holds {held} fragments of one part: there are fewer peers than fragments"
    for zone, held in sorted(Counter(zones).items()):
        if held > spare:
            left = len(holders) - held
            yield f"if zone {zone or '-'} is lost, {left} of {needed} needed fragments are left: add peers elsewhere"
