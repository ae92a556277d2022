"""The smallest node that the simulator can host: it notes what it hears, and says what it is told to say."""

from dataclasses import dataclass
from typing import Any

from overlay.contact import Contact
from overlay.effects import Effects, Later
from overlay.ids import Key, PeerId
from sim.faults import Faults
from sim.heap import EventHeap
from sim.latency import Constant
from sim.network import Network
from sim.peer import SimPeer
from sim.seeds import rng_of
from sim.trace import Trace


@dataclass(frozen=True, slots=True)
class Word:
    number: int
    size_bytes: int = 40


class PingNode:
    def __init__(self, me: Contact) -> None:
        self.me = me
        self.heard: list[tuple[float, int]] = []
        self.woken: list[tuple[float, Any]] = []
        self.lost_links: list[tuple[float, PeerId, str]] = []

    def receive(self, sender: Contact, message: Word, now: float) -> Effects:
        self.heard.append((now, message.number))
        return []

    def wake(self, event: Any, now: float) -> Effects:
        self.woken.append((now, event))
        return [Later(now + 1.0, event)] if event == "tick" else []

    def link_lost(self, peer: PeerId, reason: str, now: float) -> Effects:
        self.lost_links.append((round(now, 6), peer, reason))
        return []


class Pair:
    """Two peers, 1 and 2, ten milliseconds apart, and the network between them."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.heap = EventHeap()
        self.network = Network(
            self.heap,
            Constant(one_way_ms=10),
            faults or Faults(),
            rng_of(7, "network"),
            size_of=lambda word: word.size_bytes,
        )
        self.trace = Trace()
        self.one = self._peer(1)
        self.two = self._peer(2)

    def _peer(self, number: int) -> SimPeer:
        node = PingNode(Contact(PeerId(Key(number)), "10.0.0.1", 4000 + number))
        peer = SimPeer(node, place=number, zone=0, heap=self.heap, network=self.network, trace=self.trace, watchers={})
        self.network.peers[node.me.peer] = peer
        return peer

    def say(self, count: int, *, every_s: float = 0.001, size_bytes: int = 40) -> None:
        """Peer 1 says `count` words to peer 2, numbered from 0."""
        for number in range(count):
            self.network.send(self.one, self.two.me, Word(number, size_bytes), self.heap.now)
            self.heap.run_to(self.heap.now + every_s)

    def heard(self) -> list[int]:
        """The numbers that peer 2 has heard by the time that all is quiet."""
        self.heap.run_to(self.heap.now + 60.0)
        return [number for _, number in self.two.node.heard]
