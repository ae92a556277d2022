"""One launch, from the offers of its sources to open sources, or to nothing at all.

    survey     every peer that offers a source routes a JOIN to each sink's key; the ways it took come back
    measure    the peers on those ways tell who is near them, and what room there is
    reserve    the placement is decided; every host keeps room for its share, one asked after the other
    host       every host verifies the bundle, builds its share and connects it; nothing flows yet
    found      the app gets a register, whose members look after it from then on
    begin      all are ready: sources speak

Each step waits for all its answers. If one is a refusal, or does not come, every peer that was asked to keep room
is told to let go, and the launch fails with that peer's own words.

Room is asked for in the order of the hosts' ids, the same for every launch. So of several that race for the last slots
one wins: whoever holds the highest contested one is refused by nobody. It costs a round trip for each host; asked all
at once, two launches could each hold half of what both need, and both fail.

Pure: answers in, questions out; the shell numbers nothing and decides nothing. Rejected: starting hosts as they
answer (the fast ones would send rows to peers that may yet refuse); a two-phase commit with a log (whoever leads may
die: reservations that nobody starts expire by themselves).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from dataflow.deploying.requests import (
    Agreed,
    Begin,
    Declined,
    Halt,
    Host,
    Measure,
    Measured,
    Reply,
    Request,
    Reserve,
    Room,
    Routed,
    SendJoin,
)
from dataflow.deploying.scheduling import SchedulingReply
from overlay.contact import Contact
from overlay.ids import Key, PeerId, short

P = TypeVar("P", bound="Placed")


@dataclass(frozen=True, slots=True)
class Ask:
    """Put this question to a peer, and tell `answered` or `unanswered`."""

    to: Contact
    request: Request
    charter: bytes = b""


@dataclass(frozen=True, slots=True)
class Route:
    """The way of one JOIN: which source, which sink, over whom."""

    source: str
    sink: str
    hops: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A decided placement: how many instances each host gets, and what each host is handed."""

    generation: int
    slots: Mapping[PeerId, int]
    charter: bytes
    memory_mib: Mapping[PeerId, int] = field(default_factory=dict)


class LaunchRefused(Exception):  # noqa: N818 (an outcome, not a fault of ours)
    """The launch came to nothing. `reason` names the peer and what it lacks."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Launched(Generic[P]):
    placed: P


@dataclass(frozen=True, slots=True)
class Abandoned:
    reason: str
    avoid: PeerId | None = None
    """Who refused room, or is gone, though its neighbours believed otherwise: without it, the app may fit elsewhere."""


@dataclass(frozen=True, slots=True)
class Found(Generic[P]):
    """All hosts are ready: make the app's register, then tell `founded` or `unfounded`."""

    placed: P


Step = list[Ask | Found[P] | Launched[P] | Abandoned]
Leaves = Mapping[PeerId, frozenset[PeerId]]
"""Who is near each peer on the way, by that peer's own word."""
Decide = Callable[[Sequence[Route], Sequence[Room], Leaves], P]
"""Routes, rooms and leaf sets in, a placement out; `LaunchRefused` if it does not fit."""


@dataclass(slots=True)
class _Phase:
    waiting: dict[int, Ask] = field(default_factory=dict)
    replies: dict[int, Reply | SchedulingReply] = field(default_factory=dict)


class Launch(Generic[P]):
    """`begin`, then `answered` or `unanswered` for every `Ask`, until `Launched` or `Abandoned` comes out."""

    def __init__(
        self,
        app: str,
        name: str,
        *,
        offers: Mapping[str, Sequence[Contact]],
        sinks: Mapping[str, Key],
        decide: Decide[P],
        first_ask: int,
    ) -> None:
        self._app = app
        self._name = name
        self._offers = {source: tuple(contacts) for source, contacts in sorted(offers.items())}
        self._sinks = dict(sorted(sinks.items()))
        self._decide = decide
        self._next_ask = first_ask
        self._phase = _Phase()
        self._on_done: Callable[[], Step[P]] = self._survey
        self._joins: dict[int, tuple[str, str]] = {}
        self._routes: list[Route] = []
        self._placed: P | None = None
        self._hosts: tuple[Contact, ...] = ()
        self._holders: list[Contact] = []
        self._avoid: PeerId | None = None
        self._failure: str | None = None

    def begin(self) -> Step[P]:
        return self._survey()

    def answered(self, ask: int, reply: Reply | SchedulingReply) -> Step[P]:
        """A peer's answer. One that nobody waits for is ignored: it came twice, or too late."""
        question = self._phase.waiting.pop(ask, None)
        if question is None:
            return []
        if isinstance(reply, Declined):
            self._fail(question, f"peer {short(question.to.peer)}: {reply.reason}")
        self._phase.replies[ask] = reply
        return self._proceed()

    def unanswered(self, ask: int, reason: str) -> Step[P]:
        """No answer came, and none will."""
        question = self._phase.waiting.pop(ask, None)
        if question is None:
            return []
        self._fail(question, f"peer {short(question.to.peer)} at {question.to.address} did not answer: {reason}")
        return self._proceed()

    # The steps, each begun when the one before is answered in full.

    def _survey(self) -> Step[P]:
        asks = []
        for source, contacts in self._offers.items():
            for contact in contacts:
                for sink, key in self._sinks.items():
                    asks.append(self._number(contact, SendJoin(0, self._app, key)))
                    self._joins[asks[-1].request.ask] = (source, sink)
        return self._enter(asks, self._measure)

    def _measure(self) -> Step[P]:
        for ask, (source, sink) in self._joins.items():
            reply = self._phase.replies[ask]
            assert isinstance(reply, Routed)
            self._routes.append(Route(source, sink, reply.hops))
        met = {hop.peer: hop for route in self._routes for hop in route.hops}
        return self._enter([self._number(met[peer], Measure(0)) for peer in sorted(met)], self._reserve)

    def _reserve(self) -> Step[P]:
        known: dict[PeerId, Room] = {}
        own: dict[PeerId, Room] = {}
        leaves: dict[PeerId, frozenset[PeerId]] = {}
        for reply in self._phase.replies.values():
            assert isinstance(reply, Measured)
            first, *others = reply.rooms
            own[first.contact.peer] = first
            known |= {room.contact.peer: room for room in others}
            leaves[first.contact.peer] = frozenset(room.contact.peer for room in others)
        known |= own  # a peer's own word counts more than a neighbour's
        try:
            self._placed = self._decide(self._routes, [known[peer] for peer in sorted(known)], leaves)
        except LaunchRefused as refusal:
            return [Abandoned(refusal.reason)]
        self._hosts = tuple(known[peer].contact for peer in sorted(self._placed.slots))
        return self._reserve_next()

    def _reserve_next(self) -> Step[P]:
        placed = self._placed
        assert placed is not None
        if len(self._holders) == len(self._hosts):
            return self._host()
        host = self._hosts[len(self._holders)]
        self._holders.append(host)
        slots, memory_mib = placed.slots[host.peer], placed.memory_mib.get(host.peer, 0)
        request = Reserve(0, self._app, self._name, placed.generation, slots, memory_mib)
        return self._enter([self._number(host, request)], self._reserve_next)

    def _host(self) -> Step[P]:
        assert self._placed is not None
        request = Host(0, self._app, self._placed.generation)
        return self._enter(
            [replace(self._number(host, request), charter=self._placed.charter) for host in self._hosts],
            self._found,
        )

    def _found(self) -> Step[P]:
        assert self._placed is not None
        self._phase, self._on_done = _Phase(), self._begin_all
        return [Found(self._placed)]

    def founded(self) -> Step[P]:
        """The register is there: from now on the app has somebody who looks after it."""
        return self._begin_all()

    def unfounded(self, reason: str) -> Step[P]:
        self._fail(None, reason)
        return self._proceed()

    def _begin_all(self) -> Step[P]:
        assert self._placed is not None
        request = Begin(0, self._app, self._placed.generation)
        return self._enter([self._number(host, request) for host in self._hosts], self._done)

    def _done(self) -> Step[P]:
        assert self._placed is not None
        return [Launched(self._placed)]

    # What they share.

    def _fail(self, question: Ask | None, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
            self._avoid = question.to.peer if question and isinstance(question.request, Reserve) else None

    def _number(self, to: Contact, request: Request) -> Ask:
        ask = self._next_ask
        self._next_ask += 1
        return Ask(to, replace(request, ask=ask))

    def _enter(self, asks: list[Ask], on_done: Callable[[], Step[P]]) -> Step[P]:
        self._phase = _Phase({each.request.ask: each for each in asks})
        self._on_done = on_done
        return [*asks] if asks else on_done()

    def _proceed(self) -> Step[P]:
        if self._phase.waiting:
            return []
        if self._failure is None:
            unexpected = self._unexpected()
            if unexpected is None:
                return self._on_done()
            self._fail(None, unexpected)
        assert self._failure is not None
        if self._placed is None or self._on_done == self._give_up:
            return [Abandoned(self._failure, self._avoid)]
        request = Halt(0, self._app, self._placed.generation, False, "the launch was given up")
        return self._enter([self._number(host, request) for host in self._holders], self._give_up)

    def _give_up(self) -> Step[P]:
        assert self._failure is not None
        return [Abandoned(self._failure, self._avoid)]

    def _unexpected(self) -> str | None:
        """A reply of the wrong kind is a peer of another version, or a liar: no reason to crash."""
        wanted: dict[Callable[[], Step[P]], type] = {self._measure: Routed, self._reserve: Measured}
        kind = wanted.get(self._on_done, Agreed)
        for reply in self._phase.replies.values():
            if not isinstance(reply, kind) or (isinstance(reply, Routed | Measured) and _is_empty(reply)):
                return f"a peer answered {type(reply).__name__} where {kind.__name__} was due"
        return None


def _is_empty(reply: Routed | Measured) -> bool:
    return not (reply.hops if isinstance(reply, Routed) else reply.rooms)
