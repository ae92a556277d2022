"""Questions and rows between simulated peers, with every fault of a network as a named option.

A question that is lost, or whose answer is, stays unanswered: its asker hears so after its time. One to a peer that is
down is refused at once, as a closed port would. Rows travel on connections: a frame that is lost means that its
connection broke, and when both ends can speak again, both are told (`reconnected`), as the shell does.

What a checksum of the transport would catch is never delivered. Damage that reaches the machines: a header of an edge
frame, a fragment on its way to a holder or back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from dataflow.generations.effects import Ask, Reply, SendRows
from overlay.ids import PeerId
from recovery.custody.messages import Fragment, PutFragment
from sim.heap import EventHeap

if TYPE_CHECKING:
    from sim.apps.peer import AppPeer

RETRY_S: Final = 0.4
REFUSED_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFaults:
    """All zero: messages take their time, and that is all."""

    loss: float = 0.0
    duplication: float = 0.0
    reorder: float = 0.0
    """Share of messages that take up to a second longer, so that later ones overtake."""
    corruption: float = 0.0


class Network:
    def __init__(self, heap: EventHeap, rng: Random, peers: dict[PeerId, AppPeer]) -> None:
        self.faults = NetworkFaults()
        self.struck: Counter[str] = Counter()
        self.blocked: set[tuple[PeerId, PeerId]] = set()
        """Ways that are closed, in one direction."""
        self._heap = heap
        self._rng = rng
        self._peers = peers
        self._broken: set[tuple[PeerId, PeerId]] = set()

    # -- questions --

    def ask(self, asker: AppPeer, it: Ask, now: float) -> None:
        life, number = asker.life, it.request.ask
        target = self._peers.get(it.to)

        def refused(_: Any, at: float) -> None:
            asker.act(life, lambda then: asker.unanswered(number, "it cannot be reached", then), at)

        def silent(_: Any, at: float) -> None:
            asker.act(life, lambda then: asker.unanswered(number, "it did not answer in time", then), at)

        if target is None or not target.is_up:
            self._heap.put(now + REFUSED_S, refused, None)
            return
        self._heap.put(now + it.within_s, silent, None)
        request, body, sender, lived = it.request, it.body, asker.contact, target.life
        if isinstance(request, PutFragment):
            body = self._damaged(body)

        def arrive(at: float) -> None:
            target.act(lived, lambda then: target.asked(sender, request, body, then), at)

        self._carry(asker, target, arrive, now)

    def reply(self, sender: AppPeer, it: Reply, now: float) -> None:
        asker = self._peers.get(it.to.peer)
        if asker is None or not asker.is_up or asker.contact.boot_ms != it.to.boot_ms:
            return
        life, reply = asker.life, it.reply
        body = self._damaged(it.body) if isinstance(reply, Fragment) else it.body
        self._carry(
            sender,
            asker,
            lambda at: asker.act(life, lambda then: asker.answered(reply.ask, reply, body, then), at),
            now,
        )

    # -- rows --

    def rows(self, sender: AppPeer, it: SendRows, now: float) -> None:
        target = self._peers[it.to.peer]
        header = self._damaged(it.header)
        body = b"".join(bytes(part) for part in it.body)
        lived, way = target.life, (sender.peer, target.peer)
        if not target.is_up or not self._carry(
            sender,
            target,
            lambda at: target.act(lived, lambda then: target.frame(sender.peer, header, body, then), at),
            now,
        ):
            self.broke(*way, now)
        elif header != it.header:
            self.broke(*way, now)  # the reader drops what it cannot read: as if it had been lost

    def broke(self, one: PeerId, other: PeerId, now: float) -> None:
        """Their connection is gone; they will try again until it is there."""
        pair = (min(one, other), max(one, other))
        if pair not in self._broken:
            self._broken.add(pair)
            self._heap.put(now + self._rng.uniform(0.1, RETRY_S), self._reconnect, pair)

    def _reconnect(self, pair: tuple[PeerId, PeerId], now: float) -> None:
        one, other = (self._peers[it] for it in pair)
        if not (one.is_up and other.is_up) or pair in self.blocked or pair[::-1] in self.blocked:
            self._heap.put(now + RETRY_S, self._reconnect, pair)
            return
        self._broken.discard(pair)
        for here, there in ((one, other), (other, one)):
            here.act(here.life, partial(here.reconnected, there.peer), now)

    # -- the way --

    def _carry(self, sender: AppPeer, target: AppPeer, arrive: Callable[[float], None], now: float) -> bool:
        """False if it is lost, as far as anybody but the sender can know."""
        rng, faults = self._rng, self.faults
        if (sender.peer, target.peer) in self.blocked:
            return False
        if sender is not target and rng.random() < faults.loss:
            self.struck["loss"] += 1
            return False
        takes_s = self._takes_s(sender, target)
        if rng.random() < faults.reorder:
            self.struck["reorder"] += 1
            takes_s += rng.uniform(0.0, 1.0)
        self._heap.put(now + takes_s, lambda _, at: arrive(at), None)
        if rng.random() < faults.duplication:
            self.struck["duplication"] += 1
            self._heap.put(now + takes_s + rng.uniform(0.0, 0.5), lambda _, at: arrive(at), None)
        return True

    def _takes_s(self, sender: AppPeer, target: AppPeer) -> float:
        if sender is target:
            return 0.0001
        return self._rng.uniform(0.001, 0.004) if sender.zone == target.zone else self._rng.uniform(0.01, 0.04)

    def _damaged(self, body: Any) -> Any:
        if not len(body) or self._rng.random() >= self.faults.corruption:
            return body
        self.struck["corruption"] += 1
        changed = bytearray(body)
        changed[self._rng.randrange(len(changed))] ^= 1 << self._rng.randrange(8)
        return bytes(changed)
