"""The right to write once: a number, and the peer that took it.

Ballots are ordered, by number and then by peer. No two proposals ever own the same one, although nobody stores which
he has used: a member promises a ballot only if it is above all that it has promised, so of two proposals with an equal
ballot (one peer before and after a crash, say) one cannot find a majority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from overlay.ids import Key, PeerId
from overlay.wire import U64, WirePeer, struct


@dataclass(frozen=True, slots=True, order=True)
class Ballot:
    """
    >>> Ballot(1, PeerId(Key(9))) < Ballot(2, PeerId(Key(3))) < Ballot(2, PeerId(Key(4)))
    True
    """

    number: U64
    peer: WirePeer


WireBallot = Annotated[Ballot, struct(Ballot)]

START: Final = Ballot(0, PeerId(Key(0)))
"""Below every ballot that is taken. What a config starts with counts as written in it."""
