"""One change of a register, from a question to a majority's answer.

    prepare    a majority promises our ballot and tells what it has accepted; the latest of that is the value
    accept     `change` makes the next value of it; a majority keeps it: decided
    admit      the value is sealed: the next config's members are told what it starts with; then on with them

Outvoted at any point: once more with a higher ballot, after a random wait, so that two who duel both finish.

What is promised:
- The change is applied once. A write of ours that somebody else took up is found by its mark (value.py).
- A refusal, and a read, are answers about what a majority keeps, never about a write that may yet vanish.
- Whoever meets a sealed value finishes the move to the next config; nobody writes in the old one again. A member of the
  new one that was not told yet is told by whoever comes along, with what another member has accepted.

A read is a change that returns what it is given. When a majority already agrees, it takes one round. So does the next
change of the same proposer, as long as nobody else came between: its ballot was promised beside the last accept.

Pure: answers in, questions out. Rejected: a leader with a lease (a clock that drifts decides then); waiting for silent
members once a majority has spoken; a limit of rounds (dice end a duel; whoever has waited long enough may walk away).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from overlay.ids import PeerId
from recovery.register.ballot import START, Ballot
from recovery.register.config import Config
from recovery.register.messages import (
    NOT_ADMITTED,
    Abstained,
    Accept,
    Accepted,
    Enlisted,
    Moved,
    Outvoted,
    Prepare,
    Promised,
    Reply,
    Request,
)
from recovery.register.value import MARKS_MAX, Value, value_of

BACKOFF_S: Final = 0.05
"""About a round trip between zones: enough for the other to finish."""
BACKOFF_MAX_S: Final = 2.0

Change = Callable[[bytes | None], bytes | None]
"""The content now (None: nothing was written yet) in, the next content out; None: no. Pure: it may be called again."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Put this question to a peer, and tell `answered` or `unanswered`."""

    to: PeerId
    request: Request
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Wait:
    """Call `waited` after so long."""

    seconds: float


class Standing:
    """A ballot that a majority has promised, and the value it would find. Spent once: two writes may not share it."""

    def __init__(self, config: Config, ballot: Ballot, value: Value) -> None:
        self.config = config
        self._found: tuple[Ballot, Value] | None = (ballot, value)

    def spend(self) -> tuple[Ballot, Value] | None:
        found, self._found = self._found, None
        return found


@dataclass(frozen=True, slots=True)
class Again:
    """A change that may yet come true although its proposal has ended. Hand it to the next one for the same change."""

    mark: int
    version: int
    """What it was built upon."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The content with the change in it, and maybe others' later ones. `config` is where to go next time."""

    content: bytes | None
    version: int
    config: Config
    standing: Standing


@dataclass(frozen=True, slots=True)
class Refused:
    """`change` said no to this content, which a majority keeps. Nothing of it was written."""

    content: bytes | None
    version: int
    config: Config
    standing: Standing


@dataclass(frozen=True, slots=True)
class NoQuorum:
    """Only `found` of the `needed` members vote. `again`: whether it was written is open; None: it was not."""

    needed: int
    found: int
    config: Config
    again: Again | None


@dataclass(frozen=True, slots=True)
class Unsure:
    """A write of ours went unanswered, and so many changes later nobody can tell whether it was taken. Not repeated."""

    content: bytes | None
    version: int
    config: Config


@dataclass(frozen=True, slots=True)
class Unwilling:
    """These peers did not enlist: choose others. Nothing has changed. (Only membership.py's proposals say this.)"""

    peers: tuple[PeerId, ...]


Step = Ask | Wait | Decided | Refused | NoQuorum | Unsure | Unwilling
Steps = list[Step]
Outcome = type[Decided] | type[Refused]


@dataclass(slots=True)
class _Round:
    """One question to many, and what has come of it."""

    wanted: type
    settle: Callable[[], Steps]
    waiting: dict[int, PeerId] = field(default_factory=dict)
    votes: dict[PeerId, Reply] = field(default_factory=dict)
    values: dict[PeerId, tuple[Ballot, Value]] = field(default_factory=dict)
    outvoted: set[PeerId] = field(default_factory=set)
    not_admitted: list[PeerId] = field(default_factory=list)
    abstained: set[PeerId] = field(default_factory=set)


class Proposal:
    """`begin`, then `answered` or `unanswered` for every `Ask` and `waited` for every `Wait`, until an outcome."""

    def __init__(
        self,
        app: str,
        config: Config,
        me: PeerId,
        change: Change,
        *,
        next_ask: Callable[[], int],
        rng: Random,
        standing: Standing | None = None,
        again: Again | None = None,
    ) -> None:
        self._app = app
        self._me = me
        self._change = change
        self._next_ask = next_ask
        self._rng = rng
        self._standing = standing
        self._mark = rng.getrandbits(64) if again is None else again.mark
        self._again = again
        self._config = config
        self._reached = config
        """The latest config that has a member: where another proposal can begin."""
        self._highest = 0
        self._ballot = START
        self._times_outvoted = 0
        self._is_waiting = False
        self._round = _Round(type(None), list)
        self._proposed: tuple[Value, Outcome] | None = None

    def begin(self) -> Steps:
        standing = self._standing
        found = standing.spend() if standing is not None and standing.config == self._config else None
        if found is None:
            return self._prepare()
        self._ballot, value = found
        self._highest = self._ballot.number
        return self._consider(value, is_chosen=False)  # it was, but others may have been since: ask

    def answered(self, ask: int, reply: Reply, body: bytes | bytearray | memoryview = b"") -> Steps:
        """A peer's answer. One that nobody waits for is ignored: it came twice, or too late."""
        here = self._round
        peer = here.waiting.pop(ask, None)
        if peer is None:
            return []
        if isinstance(reply, Moved) and reply.config.number > self._config.number:
            self._config = self._reached = reply.config
            return self._prepare()
        if isinstance(reply, Outvoted):
            self._highest = max(self._highest, reply.promised.number)
            here.outvoted.add(peer)
        elif isinstance(reply, Abstained) and reply.why == NOT_ADMITTED:
            here.not_admitted.append(peer)
        elif isinstance(reply, Abstained):
            here.abstained.add(peer)
        elif isinstance(reply, here.wanted):
            self._count(peer, reply, body)
        return here.settle()

    def unanswered(self, ask: int) -> Steps:
        """No answer came, and none will."""
        here = self._round
        return [] if here.waiting.pop(ask, None) is None else here.settle()

    def waited(self) -> Steps:
        if not self._is_waiting:
            return []
        self._is_waiting = False
        return self._prepare()

    # Prepare: what is the value?

    def _prepare(self) -> Steps:
        self._highest += 1
        self._ballot = Ballot(self._highest, self._me)
        request = Prepare(0, self._app, self._config, self._ballot)
        return self._enter(Promised, self._on_promises, self._config.peers, request)

    def _on_promises(self) -> Steps:
        here, needed = self._round, self._config.quorum
        if len(here.values) >= needed:
            accepted, value = max(here.values.values(), key=lambda it: it[0])
            return self._consider(value, is_chosen=all(ballot == accepted for ballot, _ in here.values.values()))
        voters = len(here.values) + len(here.outvoted)
        if here.outvoted and voters >= needed:
            return self._retry()
        if here.waiting:
            return []
        if here.values and len(here.values) + len(here.not_admitted) >= needed:
            ballot, value = max(here.values.values(), key=lambda it: it[0])
            # As if that ballot's own question came late: whoever has not voted yet may still accept it.
            return self._admit(ballot, value, here.not_admitted, already=len(here.values))
        if here.outvoted and voters + len(here.not_admitted) >= needed:
            return self._retry()
        return self._give_up(needed, voters)

    # Accept: what shall it be?

    def _consider(self, value: Value, *, is_chosen: bool) -> Steps:
        """`is_chosen`: a majority is known to keep this very value, so there is no need to write it once more."""
        proposed, outcome = self._next_of(value)
        if proposed is None:
            self._round = _Round(type(None), list)
            return [Unsure(value.content, value.header.version, self._config)]
        self._proposed = proposed, outcome
        if proposed is value and is_chosen:
            return self._on_chosen(self._ballot)
        if proposed is not value and (self._again is None or is_chosen):  # what is chosen has outlived earlier writes
            self._again = Again(self._mark, value.header.version)
        promise = Ballot(self._ballot.number + 1, self._me)
        self._highest = promise.number
        request = Accept(0, self._app, self._config, self._ballot, promise, proposed.header)
        to = [peer for peer in self._config.peers if peer not in self._round.abstained]
        return self._enter(Accepted, self._on_accepted, to, request, proposed.body)

    def _next_of(self, value: Value) -> tuple[Value | None, Outcome]:
        if value.header.next is not None:
            return value, Decided  # of this config; the outcome comes in the next
        if value.is_marked(self._mark):
            return value, Decided
        if self._again is not None and value.header.version - self._again.version > MARKS_MAX:
            return None, Refused
        changed = self._edit(value)
        return (value, Refused) if changed is None else (changed, Decided)

    def _edit(self, value: Value) -> Value | None:
        content = self._change(value.content)
        if content is None or content == value.content:
            return None if content is None else value
        return value.changed(content, mark=self._mark)

    def _on_accepted(self) -> Steps:
        here, needed = self._round, self._config.quorum
        if len(here.votes) >= needed:
            return self._on_chosen(Ballot(self._ballot.number + 1, self._me))
        voters = len(here.votes) + len(here.outvoted)
        if here.outvoted and voters >= needed:
            return self._retry()
        return [] if here.waiting else self._give_up(needed, voters)

    def _on_chosen(self, promised: Ballot) -> Steps:
        assert self._proposed is not None
        value, outcome = self._proposed
        if value.header.next is not None:
            self._config = value.header.next
            return self._admit(START, value.opened(), self._config.peers, already=0)
        self._round = _Round(type(None), list)
        standing = Standing(self._config, promised, value)
        return [outcome(value.content, value.header.version, self._config, standing)]

    # Admit: tell members of this config who have not heard of it.

    def _admit(self, ballot: Ballot, value: Value, to: Iterable[PeerId], *, already: int) -> Steps:
        needed = self._config.quorum

        def settle() -> Steps:
            # Outvoted: it has gone further than this, so it has been admitted.
            members = already + len(self._round.votes) + len(self._round.outvoted)
            if members >= needed:
                self._reached = self._config
                return self._prepare()
            return [] if self._round.waiting else self._give_up(needed, members)

        request = Accept(0, self._app, self._config, ballot, ballot, value.header)
        return self._enter(Accepted, settle, to, request, value.body)

    # What they share.

    def _enter(
        self, wanted: type, settle: Callable[[], Steps], to: Iterable[PeerId], request: Request, body: bytes = b""
    ) -> Steps:
        """Put one question to many. Answers to the one before are not waited for any more."""
        self._round = _Round(wanted, settle)
        asks = [Ask(peer, replace(request, ask=self._next_ask()), body) for peer in to]
        self._round.waiting = {each.request.ask: each.to for each in asks}
        return [*asks] if asks else settle()

    def _count(self, peer: PeerId, reply: Reply, body: bytes | bytearray | memoryview) -> None:
        if isinstance(reply, Promised):
            value = value_of(reply.header, body)
            if value is not None:
                self._round.values[peer] = (reply.accepted, value)
        elif isinstance(reply, Accepted | Enlisted):
            self._round.votes[peer] = reply

    def _retry(self) -> Steps:
        self._times_outvoted += 1
        if self._times_outvoted == 1:
            return self._prepare()  # we could not know how far the ballots are; now we do
        self._round = _Round(type(None), list)
        self._is_waiting = True
        most_s = min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** min(self._times_outvoted, 10))
        return [Wait(self._rng.uniform(most_s / 4, most_s))]

    def _give_up(self, needed: int, found: int) -> Steps:
        self._round = _Round(type(None), list)
        return [NoQuorum(needed, found, self._reached, self._again)]
