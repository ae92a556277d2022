"""Who votes: the first config of a register, and the move from one config to the next.

Both begin by enlisting: every peer that shall vote makes a record of the app, or shows that it has one, and tells the
token of it. Only then is a config made of those tokens.

    Founding   tells the first config's members that they start with nothing, then makes the first change
    Move       seals the value with the name of the next config; from there on anybody can finish it (proposer.py)

A value decided before the seal is in the sealed value, so in what the next config starts with. After the seal no value
is decided in the old config, for a ballot finds the seal and writes nothing but it. If a move is cut short, members of
the old config answer for it until they are admitted to the next.

Rejected: changing one member in place (two configs whose majorities do not meet, if two peers do so at once).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from overlay.ids import PeerId
from recovery.register.ballot import START
from recovery.register.config import MEMBERS_MAX, Config, Member
from recovery.register.messages import Enlist, Enlisted
from recovery.register.proposer import Again, Change, Proposal, Steps, Unwilling
from recovery.register.value import EMPTY, Value


def _sorted(members: Sequence[PeerId]) -> list[PeerId]:
    peers = sorted(set(members))
    if len(peers) != len(members) or not 1 <= len(peers) <= MEMBERS_MAX:
        raise ValueError(f"a register has 1 to {MEMBERS_MAX} members, each once: {len(members)} were named")
    return peers


class Founding(Proposal):
    """Make the register of an app. `change` is asked as always: if there is one already, it sees what that keeps.

    Two of them with the same members make one register. Members are fixed by the app's manifest, so all name the same.
    """

    def __init__(
        self,
        app: str,
        members: Sequence[PeerId],
        me: PeerId,
        change: Change,
        *,
        next_ask: Callable[[], int],
        rng: Random,
        again: Again | None = None,
    ) -> None:
        self._peers = _sorted(members)
        nobody = Config(1, tuple(Member(peer, 0) for peer in self._peers))
        super().__init__(app, nobody, me, change, next_ask=next_ask, rng=rng, again=again)

    def begin(self) -> Steps:
        return self._enter(Enlisted, self._on_enlisted, self._peers, Enlist(0, self._app))

    def _on_enlisted(self) -> Steps:
        if self._round.waiting:
            return []
        tokens = _tokens(self._round.votes)
        lacking = tuple(peer for peer in self._peers if peer not in tokens)
        if lacking:
            return [Unwilling(lacking)]
        self._config = self._reached = Config(1, tuple(Member(peer, tokens[peer]) for peer in self._peers))
        return self._admit(START, EMPTY, self._peers, already=0)


class Move(Proposal):
    """From `config` to one with these members. `Refused` if it was left for another one meanwhile: look again."""

    def __init__(
        self,
        app: str,
        config: Config,
        me: PeerId,
        members: Sequence[PeerId],
        *,
        next_ask: Callable[[], int],
        rng: Random,
        again: Again | None = None,
    ) -> None:
        self._peers = _sorted(members)
        self._old = config
        self._next = config
        super().__init__(app, config, me, lambda content: content, next_ask=next_ask, rng=rng, again=again)

    def begin(self) -> Steps:
        return self._enter(Enlisted, self._on_enlisted, self._peers, Enlist(0, self._app))

    def _on_enlisted(self) -> Steps:
        if self._round.waiting:
            return []
        heard = _tokens(self._round.votes)
        known = {member.peer: member.token for member in self._old.members}
        tokens = known | heard  # who has forgotten everything says so by another token
        lacking = tuple(peer for peer in self._peers if peer not in tokens)
        silent = tuple(peer for peer in self._peers if peer not in heard)
        self._next = Config(
            self._old.number + 1, tuple(Member(peer, tokens[peer]) for peer in self._peers if peer in tokens)
        )
        # A member that is silent just now may stay, but the next config must be able to vote.
        if lacking or len(heard) < self._next.quorum:
            return [Unwilling(lacking or silent)]
        return self._prepare()

    def _edit(self, value: Value) -> Value | None:
        return value.sealed(self._next, mark=self._mark) if self._config == self._old else None


def _tokens(votes: Mapping[PeerId, object]) -> dict[PeerId, int]:
    return {peer: reply.token for peer, reply in votes.items() if isinstance(reply, Enlisted)}
