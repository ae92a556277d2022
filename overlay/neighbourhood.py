"""Our neighbourhood: the peers that are quickest to reach, our own zone first.

Instances and fragments go here, because bytes that travel far cost most; the leaf set, whose members live
anywhere on earth, is for ownership only. Spread over zones is asked for explicitly: a zone may lose power as one.
"""

from collections.abc import Iterable

from overlay.contact import Contact
from overlay.facts import Facts


def neighbourhood(me: Contact, known: Iterable[Contact], facts: Facts, most: int) -> list[Contact]:
    """The `most` nearest peers by round-trip time: those of our zone, then the others."""
    return sorted(known, key=lambda it: (it.zone != me.zone, facts.rtt_s(it.peer), it.peer))[:most]


def spread_over_zones(ranked: Iterable[Contact], *, most: int, per_zone: int) -> list[Contact]:
    """The first `most` of `ranked`, with at most `per_zone` of any zone.

    >>> from overlay.ids import Key, PeerId
    >>> peers = [Contact(PeerId(Key(n)), "h", n, zone=zone) for n, zone in enumerate("aaab")]
    >>> [it.port for it in spread_over_zones(peers, most=3, per_zone=2)]
    [0, 1, 3]
    """
    chosen: list[Contact] = []
    taken: dict[str, int] = {}
    for contact in ranked:
        if len(chosen) == most:
            break
        if taken.get(contact.zone, 0) < per_zone:
            taken[contact.zone] = taken.get(contact.zone, 0) + 1
            chosen.append(contact)
    return chosen
