"""Which peers vote, in which order of configs, and by which record each of them is known.

A member's *token* is a number that it drew when it made its record of this app. A peer whose record is gone draws
another, so whatever the old config still says of it, it cannot be taken for the member it was: that is the whole
defence against amnesia, and it holds however late a repeated message comes.

Rejected: admitting by name alone (a repeated admission would let a member vote that has forgotten its votes); the boot
id instead of a token (a power cut between seal and admission would leave a config in which nobody may vote).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from overlay.ids import PeerId
from overlay.wire import U64, WirePeer, listed, struct

MEMBERS_MAX: Final = 9
"""Three is usual, five is cautious; every member costs a write to its disk per change."""


@dataclass(frozen=True, slots=True)
class Member:
    peer: WirePeer
    token: U64


@dataclass(frozen=True, slots=True)
class Config:
    """The first has number 1. Its members stand in the order of their ids, so that equal configs are equal."""

    number: U64
    members: Annotated[tuple[Member, ...], listed(struct(Member), MEMBERS_MAX)]

    @property
    def peers(self) -> tuple[PeerId, ...]:
        return tuple(member.peer for member in self.members)

    @property
    def quorum(self) -> int:
        """So many members that any two such groups share one."""
        return len(self.members) // 2 + 1

    def token_of(self, peer: PeerId) -> int | None:
        return next((member.token for member in self.members if member.peer == peer), None)


WireConfig = Annotated[Config, struct(Config)]
