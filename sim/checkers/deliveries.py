"""Does every routed message reach the one peer that owns its key?

Each message carries a token, so that a delivery is recognised wherever it happens. The owner is the nearest
member *when the message arrives*: under churn it may be another than when the message was sent.
Arriving twice at the owner is allowed (hops repeat what was not acknowledged); arriving once at somebody
else is not.
"""

from dataclasses import dataclass, field
from typing import Any

from overlay.effects import Answer, Arrived
from overlay.ids import Key
from sim.census import Census
from sim.peer import SimPeer


@dataclass(slots=True)
class Delivery:
    """What became of one routed message."""

    key: Key
    source: SimPeer
    sent_at: float
    arrived_at: float | None = None
    arrived_by: SimPeer | None = None
    route: tuple[Any, ...] = ()
    strays: list[SimPeer] = field(default_factory=list)
    """Peers that took it for theirs, and were not the owner."""
    answer: Any = None
    answered_at: float | None = None

    @property
    def is_right(self) -> bool:
        """It reached the owner, and nobody else."""
        return self.arrived_by is not None and not self.strays

    @property
    def delay_s(self) -> float:
        assert self.arrived_at is not None
        return self.arrived_at - self.sent_at


class Deliveries:
    """All routed messages of a run."""

    KIND = "probe"

    def __init__(self, census: Census) -> None:
        self._census = census
        self._by_token: dict[bytes, Delivery] = {}
        self._by_request: dict[tuple[SimPeer, int], Delivery] = {}

    def send(self, source: SimPeer, key: Key, now: float) -> Delivery:
        """Route a message with a fresh token from `source` to `key`."""
        token = len(self._by_token).to_bytes(8, "big")
        delivery = self._by_token[token] = Delivery(key, source, now)
        request, effects = source.node.route(key, self.KIND, token, now)
        self._by_request[source, request] = delivery
        source.carry_out(effects, now)
        return delivery

    def on_arrived(self, peer: SimPeer, effect: Arrived, now: float) -> None:
        delivery = self._by_token.get(effect.payload) if effect.kind == self.KIND else None
        if delivery is None:
            return
        if self._census.owner(effect.key) != peer.me.peer:
            delivery.strays.append(peer)
        elif delivery.arrived_by is None:
            delivery.arrived_by, delivery.arrived_at, delivery.route = peer, now, effect.route

    def on_answer(self, peer: SimPeer, effect: Answer, now: float) -> None:
        delivery = self._by_request.pop((peer, effect.request), None)
        if delivery is not None:
            delivery.answer, delivery.answered_at = effect.result, now
