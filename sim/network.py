"""Carry messages between peers, late or not at all.

The network decides the fate of each message when it is sent: lost, twice, held back, queued behind others;
then it puts the arrival on the event heap. A message to a life of a peer that has ended is never given to
its next life: the connection broke in between.

Cuts are directed: `cut(from_peers, to_peers)` stops one way, two of them stop both. They also swallow what
is already under way, as a pulled cable does.

Pure but for its rng: the same sends in the same order have the same fates.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from overlay.contact import Contact
from overlay.ids import PeerId
from overlay.wire import decode, encode
from sim.faults import Faults
from sim.heap import EventHeap
from sim.latency import Latency

if TYPE_CHECKING:
    from sim.peer import SimPeer

FRAME_BYTES = 60
"""TCP, IP and length prefix around a message, when bandwidth is counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Messages from `senders` to `receivers` go nowhere."""

    senders: frozenset[PeerId]
    receivers: frozenset[PeerId]

    def stops(self, sender: PeerId, receiver: PeerId) -> bool:
        return sender in self.senders and receiver in self.receivers


class Network:
    """All links of a world."""

    def __init__(
        self,
        heap: EventHeap,
        latency: Latency,
        faults: Faults,
        rng: Random,
        *,
        as_bytes: bool = False,
        size_of: Callable[[Any], int] = lambda message: len(encode(message)),
    ) -> None:
        self.faults = faults
        self.latency = latency
        self.peers: dict[PeerId, SimPeer] = {}
        """Who lives at an id now: its latest life, running or not."""
        self.sent: Counter[str] = Counter()
        """Messages sent, by type."""
        self.lost = 0
        self.unreachable = 0
        """Messages to addresses at which nobody ever lived, or no longer lives."""
        self._heap = heap
        self._rng = rng
        self._as_bytes = as_bytes
        self._size_of = size_of
        self.cuts: list[Cut] = []
        self._healed_at = float("-inf")

    @property
    def messages_sent(self) -> int:
        return self.sent.total()

    def send(self, sender: "SimPeer", to: Contact, message: Any, now: float) -> None:
        """Start `message` on its way to `to`."""
        self.sent[type(message).__name__] += 1
        target = self.peers.get(to.peer)
        if target is None or (target.me is not to and target.me.address != to.address):
            self.unreachable += 1
            return
        faults = self.faults
        rng = self._rng
        if faults.loss and rng.random() < faults.loss:
            self.lost += 1
            return
        at = now + self.latency.one_way_s(sender.place, target.place)
        if faults.bandwidth_bytes_per_s:
            queued_s = self._queue(sender, message, now)
            if queued_s is None:
                self.lost += 1
                return
            at += queued_s
        if faults.jitter_s:
            at += rng.random() * faults.jitter_s
        if faults.reorder and rng.random() < faults.reorder:
            at += rng.random() * faults.reorder_s
        if self._as_bytes:
            message = decode(encode(message))
        self._heap.put(at, target.deliver, (sender, message))
        if faults.duplicate and rng.random() < faults.duplicate:
            self._heap.put(at + rng.random() * faults.reorder_s, target.deliver, (sender, message))

    def _queue(self, sender: "SimPeer", message: Any, now: float) -> float | None:
        """Seconds until the uplink has taken this message; `None` if the queue has no room for it."""
        ahead_s = max(sender.uplink_free_at - now, 0.0)
        if ahead_s > self.faults.queue_s_max:
            return None
        took_s = (self._size_of(message) + FRAME_BYTES) / self.faults.bandwidth_bytes_per_s
        sender.uplink_free_at = now + ahead_s + took_s
        return ahead_s + took_s

    def cut(self, senders: Iterable[PeerId], receivers: Iterable[PeerId]) -> Cut:
        """From now on nothing gets from `senders` to `receivers`."""
        made = Cut(frozenset(senders), frozenset(receivers))
        self.cuts.append(made)
        return made

    def heal(self, cut: Cut | None = None) -> None:
        """Undo one cut, or all of them."""
        self.cuts = [it for it in self.cuts if cut is not None and it is not cut]
        self._healed_at = self._heap.now

    def passes(self, sender: PeerId, receiver: PeerId) -> bool:
        """Is the way from `sender` to `receiver` open?"""
        return not any(cut.stops(sender, receiver) for cut in self.cuts)

    def open_since(self, a: PeerId, b: PeerId) -> float:
        """Since when two peers can have heard each other, as far as cuts go; infinity if they cannot now."""
        return self._healed_at if self.passes(a, b) and self.passes(b, a) else float("inf")
