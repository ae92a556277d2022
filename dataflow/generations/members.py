"""Who keeps the register of an app: three peers in different zones, or one where there are no three.

Two members would be worse than one: both must answer, so either can stop the app. The choice depends on the app, so
that registers spread over a ring; and only on who is known, so that it can be made again. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from overlay.contact import Contact
from overlay.ids import key_of

MEMBERS: Final = 3


def choose_members(app: str, known: Iterable[Contact], count: int = MEMBERS) -> tuple[Contact, ...]:
    """In the order in which they lead.

    >>> from overlay.ids import PeerId
    >>> peers = [Contact(PeerId(it), "h", 1, zone=zone) for it, zone in enumerate("aabbc", start=1)]
    >>> len({it.zone for it in choose_members("app", peers)}), len(choose_members("app", peers[:2]))
    (3, 1)
    """
    key = key_of(app)
    near = sorted({it.peer: it for it in known}.values(), key=lambda it: it.peer ^ key)
    if len(near) < count:
        return tuple(near[:1])
    chosen: list[Contact] = []
    while len(chosen) < count:
        taken = [it.zone for it in chosen]
        left = [it for it in near if it not in chosen]
        chosen.append(min(left, key=lambda it: taken.count(it.zone)))  # of equals the first, which is the nearest
    return tuple(chosen)
