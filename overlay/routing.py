"""Carry a message to the owner of a key, one acknowledged hop at a time, and record the way it took.

Every hop hands on to somebody strictly nearer, so a route cannot loop. A hop that gets no acknowledgement tries
another contact, and only the origin gives up: it asks again, by then with a repaired view. Nobody claims a key that
its leaf set does not cover before it has searched for somebody nearer.

On every peer of the way an *upcall* sees the message pass: it may note it, change what it carries, or take it
from the road. That is how JOINs of an app's sources will meet, and how a joining peer collects its routing table.

Promise: the owner's upcall sees a message once, unless the owner changed meanwhile. Pure.
Rejected: the iterative way (the origin asks each hop itself): nobody on the road would see the message pass.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from overlay.contact import Contact
from overlay.effects import Answer, Arrived, Effects, Later, OnEvent, OnMessage, Send
from overlay.ids import Key, PeerId
from overlay.messages.routing import ROUTE_HOPS_MAX, Forward, Hop, HopTaken, RouteEnded
from overlay.settings import Settings
from overlay.view import View

SEEN_MAX = 1024
"""Routed messages remembered, so that a repeated one is acknowledged and not handled twice."""

ENDED_MAX = 128
"""Answers kept for origins that did not hear them and ask again."""


class Upcall(Protocol):
    """What a layer above does with the routed messages of its kind."""

    def passing(self, message: Forward, next_hop: Contact | None, now: float) -> tuple[bytes | None, Effects]:
        """The message is here. Returns what it shall carry on (`None`: it ends here), and what else to do."""
        ...

    def arrived(self, message: Forward, now: float) -> tuple[bytes, Effects]:
        """We own its key. Returns the answer for the origin, and what else to do."""
        ...


@dataclass(frozen=True, slots=True)
class RouteResult:
    """How a route ended: the peers on its way, origin first, owner last; and what the owner answered."""

    key: Key
    hops: tuple[Hop, ...]
    payload: bytes

    @property
    def owner(self) -> Contact:
        return self.hops[-1].contact


@dataclass(frozen=True, slots=True)
class RouteFailure:
    """Nobody answered, however often we asked."""

    key: Key
    attempts: int


@dataclass(slots=True)
class _Handover:
    """A message we have sent on and nobody has acknowledged yet."""

    message: Forward
    to: Contact
    sent_at: float
    attempts: int
    silent: frozenset[PeerId]


@dataclass(slots=True)
class _Request:
    """A message of our own that has not come to its end yet."""

    key: Key
    kind: str
    payload: bytes
    attempts: int


@dataclass(frozen=True, slots=True)
class _HopDue:
    hop_nonce: int


@dataclass(frozen=True, slots=True)
class _RouteDue:
    request: int
    attempt: int


class Router:
    def __init__(
        self,
        me: Contact,
        view: View,
        settings: Settings,
        *,
        rng: random.Random,
        upcalls: Mapping[str, Upcall],
        is_ready: Callable[[], bool],
        search: Callable[[Key, float], tuple[int, Effects]],
    ) -> None:
        self._me = me
        self._view = view
        self._settings = settings
        self._rng = rng
        self._upcalls = upcalls
        self._is_ready = is_ready
        self._search = search
        self._searching: dict[int, tuple[Forward, bool]] = {}
        self._handovers: dict[int, _Handover] = {}
        self._requests: dict[int, _Request] = {}
        self._seen: OrderedDict[tuple[PeerId, int, int], None] = OrderedDict()
        self._ended: OrderedDict[tuple[PeerId, int], RouteEnded] = OrderedDict()
        self._waiting: list[Forward] = []
        self.events: dict[type, OnEvent] = {_HopDue: self._on_hop_due, _RouteDue: self._on_route_due}
        self.messages: dict[type, OnMessage] = {
            Forward: self._on_forward,
            HopTaken: self._on_taken,
            RouteEnded: self._on_ended,
        }

    def route(self, key: Key, kind: str, payload: bytes, now: float) -> tuple[int, Effects]:
        """Send `payload` to whoever owns `key`. Returns the request that a later `Answer` will name."""
        request = self._rng.getrandbits(64)
        self._requests[request] = _Request(key, kind, payload, 0)
        return request, self._send_request(request, now)

    def send_through(self, seed: Contact, key: Key, kind: str, now: float) -> Effects:
        """Start a route at another peer, as one must who is not in the ring yet. Nobody answers the request."""
        message = Forward(self._rng.getrandbits(64), self._me, self._rng.getrandbits(64), 1, key, kind, b"", ())
        return [Send(seed, message)]

    def release(self, now: float) -> Effects:
        """We have become part of the ring: carry on what reached us meanwhile."""
        waiting, self._waiting = self._waiting, []
        return [effect for message in waiting for effect in self._advance(message, now)]

    def _send_request(self, request: int, now: float) -> Effects:
        state = self._requests[request]
        state.attempts += 1
        message = Forward(0, self._me, request, state.attempts, state.key, state.kind, state.payload, ())
        due = Later(now + self._settings.route_timeout_s, _RouteDue(request, state.attempts))
        return [due, *self._advance(message, now)]

    def _on_route_due(self, event: _RouteDue, now: float) -> Effects:
        state = self._requests.get(event.request)
        if state is None or state.attempts != event.attempt:
            return []
        if state.attempts < self._settings.route_attempts:
            return self._send_request(event.request, now)
        del self._requests[event.request]
        return [Answer(event.request, RouteFailure(state.key, state.attempts))]

    def _on_forward(self, sender: Contact, message: Forward, now: float) -> Effects:
        effects: Effects = [Send(sender, HopTaken(message.hop_nonce))]
        if self._is_repeated(message):
            return effects
        if not self._is_ready():
            # Half a view would send it to the wrong owner; we shall know better within a few round trips.
            if len(self._waiting) < SEEN_MAX:
                self._waiting.append(message)
            return effects
        return effects + self._advance(message, now)

    def _is_repeated(self, message: Forward) -> bool:
        """Has this very try passed here? A later try of the origin may go another way, and counts anew."""
        mark = (message.origin.peer, message.nonce, message.attempt)
        if mark in self._seen:
            return True
        self._seen[mark] = None
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        return False

    def found(self, request: int, now: float) -> Effects:
        """A search of ours is over. If it served a message, its view of who is nearer is better now."""
        searching = self._searching.pop(request, None)
        if searching is None:
            return []
        message, has_passed = searching
        return self._advance(message, now, has_searched=True, has_passed=has_passed)

    def _advance(
        self, message: Forward, now: float, *, has_searched: bool = False, has_passed: bool = False
    ) -> Effects:
        """Let the upcall see it, unless it has, then hand it on, or end its way here."""
        if len(message.route) >= ROUTE_HOPS_MAX - 1:
            return []
        silent = _never_to(message)
        next_hop = self._view.next_hop(message.key, silent)
        if next_hop is None and not has_searched and not self._view.leaves.covers(message.key):
            # We know nobody nearer, but cannot know that there is nobody: ask before we claim the key.
            request, effects = self._search(message.key, now)
            self._searching[request] = (message, has_passed)
            return effects
        upcall = self._upcalls.get(message.kind)
        effects = []
        if upcall is not None and not has_passed:
            payload, effects = upcall.passing(message, next_hop, now)
            if payload is None:
                return effects + self._end(message, now, upcall)
            if payload is not message.payload:
                message = replace(message, payload=payload)
        if next_hop is None:
            return effects + self._end(message, now, upcall)
        return effects + self._hand_over(message, next_hop, now, attempts=1, silent=silent)

    def _hand_over(
        self, message: Forward, to: Contact, now: float, *, attempts: int, silent: frozenset[PeerId]
    ) -> Effects:
        hop_nonce = self._rng.getrandbits(64)
        here = Hop(self._me, self._rtt_us(to.peer))
        self._handovers[hop_nonce] = _Handover(message, to, now, attempts, silent)
        sent = replace(message, hop_nonce=hop_nonce, route=(*message.route, here))
        return [Send(to, sent), Later(now + self._hop_wait_s(to.peer), _HopDue(hop_nonce))]

    def _hop_wait_s(self, peer: PeerId) -> float:
        facts, least_s = self._view.facts, self._settings.hop_timeout_s
        return max(least_s, 4 * facts.rtt_s(peer)) if facts.is_measured(peer) else least_s

    def _rtt_us(self, peer: PeerId) -> int:
        facts = self._view.facts
        return max(1, min(int(facts.rtt_s(peer) * 1e6), 2**32 - 1)) if facts.is_measured(peer) else 0

    def _on_taken(self, sender: Contact, message: HopTaken, now: float) -> Effects:
        handover = self._handovers.pop(message.hop_nonce, None)
        if handover is not None and handover.to.peer == sender.peer:
            self._view.facts.measured(sender.peer, now - handover.sent_at)
        return []

    def refused(self, peer: PeerId, now: float) -> Effects:
        """Nobody listens at that peer's address: do not wait for it."""
        waiting = [nonce for nonce, handover in self._handovers.items() if handover.to.peer == peer]
        return [effect for nonce in waiting for effect in self._on_hop_due(_HopDue(nonce), now)]

    def _on_hop_due(self, event: _HopDue, now: float) -> Effects:
        handover = self._handovers.pop(event.hop_nonce, None)
        if handover is None or handover.attempts >= self._settings.hop_attempts:
            return []
        self._view.strike(handover.to)
        silent = handover.silent | {handover.to.peer}
        another = None
        if handover.message.key != handover.to.peer and not self._view.leaves.covers(handover.message.key):
            another = self._view.next_hop(handover.message.key, silent)
        if another is None:
            # The last hop has no substitute: whoever owns the key owns it until it is confirmed dead.
            another = self._view.next_hop(handover.message.key, _never_to(handover.message))
        if another is None:
            return self._advance(handover.message, now, has_passed=True)
        return self._hand_over(handover.message, another, now, attempts=handover.attempts + 1, silent=silent)

    def _end(self, message: Forward, now: float, upcall: Upcall | None) -> Effects:
        """The message is where it belongs: tell the layer above, once, and its origin, as often as it asks."""
        mark = (message.origin.peer, message.nonce)
        ended = self._ended.get(mark)
        effects: Effects = []
        if ended is None:
            route = (*message.route, Hop(self._me, 0))
            reply, effects = (b"", []) if upcall is None else upcall.arrived(message, now)
            effects = [Arrived(message.key, message.kind, message.payload, message.origin, route), *effects]
            ended = self._ended[mark] = RouteEnded(message.nonce, route, reply)
            if len(self._ended) > ENDED_MAX:
                self._ended.popitem(last=False)
        if message.origin.peer == self._me.peer:
            return effects + self._answer(ended.nonce, ended.route, ended.payload)
        return [*effects, Send(message.origin, ended)]

    def _on_ended(self, sender: Contact, message: RouteEnded, now: float) -> Effects:
        return self._answer(message.nonce, message.route, message.payload)

    def _answer(self, request: int, route: tuple[Hop, ...], payload: bytes) -> Effects:
        state = self._requests.pop(request, None)
        return [] if state is None or not route else [Answer(request, RouteResult(state.key, route, payload))]


def _never_to(message: Forward) -> frozenset[PeerId]:
    """A route to one's own id asks for the nearest *other* peer: that is how one joins."""
    return frozenset({message.origin.peer}) if message.key == message.origin.peer else frozenset()
