"""One life of a peer in the simulator: a production node, and the device around it.

This is the simulator's shell: it hands messages and timers to the node and carries out what the node asks,
on the event heap instead of on sockets. It knows nothing of the protocol.

A life ends for good. A restart is another `SimPeer` with the same id and a later `boot_ms`, and what was on
its way to the old life is lost with it. How a life ends decides what others notice: a crashed or departed
process leaves a device that closes and refuses connections; one without power is silent.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Protocol

from overlay.contact import Contact
from overlay.effects import Effects, Later, Send
from overlay.ids import PeerId, short
from sim.heap import EventHeap, Target
from sim.network import Network
from sim.trace import Trace

IDLE_S = 60.0
"""Connections idle for longer are closed, so nobody notices through them that a process died."""


class State(Enum):
    UP = auto()
    PAUSED = auto()
    CRASHED = auto()
    DARK = auto()
    LEFT = auto()


RUNS = frozenset({State.UP, State.PAUSED})
REFUSES = frozenset({State.CRASHED, State.LEFT})


class Node(Protocol):
    """What the simulator asks of a machine that it hosts; `OverlayNode` is one."""

    @property
    def me(self) -> Contact: ...
    def join(self, seeds: Sequence[Contact], now: float) -> Effects: ...
    def leave(self, now: float) -> Effects: ...
    def receive(self, sender: Contact, message: Any, now: float) -> Effects: ...
    def wake(self, event: Any, now: float) -> Effects: ...
    def link_lost(self, peer: PeerId, reason: str, now: float) -> Effects: ...


Watcher = Callable[["SimPeer", Any, float], None]


class SimPeer:
    """A node at a place in the network."""

    __slots__ = (
        "_backlog",
        "_heap",
        "_links",
        "_network",
        "_trace",
        "_watchers",
        "born_at",
        "changed_at",
        "deliver",
        "me",
        "name",
        "node",
        "place",
        "state",
        "uplink_free_at",
        "wake",
        "zone",
    )

    def __init__(
        self,
        node: Any,
        *,
        place: int,
        zone: int,
        heap: EventHeap,
        network: Network,
        trace: Trace,
        watchers: dict[type, list[Watcher]],
    ) -> None:
        self.node = node
        self.me: Contact = node.me
        self.place = place
        self.zone = zone
        self.name = short(self.me.peer)
        self.state = State.UP
        self.born_at = heap.now
        self.changed_at = heap.now
        """When it last began or ceased to run: evidence from before says nothing about now."""
        self.uplink_free_at = 0.0
        # Bound once: the heap keeps one of these for every message and timer that is under way.
        self.deliver: Target = self._deliver
        self.wake: Target = self._wake
        self._heap = heap
        self._network = network
        self._trace = trace
        self._watchers = watchers
        self._links: dict[PeerId, tuple[SimPeer, float]] = {}
        self._backlog: list[tuple[Target, Any]] = []

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.name.lower()}>"

    @property
    def runs(self) -> bool:
        return self.state in RUNS

    def carry_out(self, effects: Effects, now: float) -> None:
        """Do what the node asks; show the rest to whoever watches."""
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._network.send(self, effect.to, effect.message, now)
            elif kind is Later:
                self._heap.put(effect.at, self.wake, effect.event)
            else:
                for watcher in self._watchers.get(kind, ()):
                    watcher(self, effect, now)

    def _deliver(self, event: tuple["SimPeer", Any], now: float) -> None:
        sender, message = event
        if self.state is not State.UP:
            self._miss(sender, event, now)
            return
        network = self._network
        if network.cuts and not network.passes(sender.me.peer, self.me.peer):
            network.lost += 1
            return
        self._trace.event(now, self.name, message, sender.name)
        if network.faults.hints:
            self._links[sender.me.peer] = (sender, now)
            sender._links[self.me.peer] = (self, now)
        self.carry_out(self.node.receive(sender.me, message, now), now)

    def _miss(self, sender: "SimPeer", event: Any, now: float) -> None:
        if self.state is State.PAUSED:
            self._backlog.append((self.deliver, event))
        elif self.state in REFUSES and self._network.faults.hints:
            self._tell_lost(sender, "refused", now)

    def _wake(self, event: Any, now: float) -> None:
        if self.state is State.UP:
            self._trace.event(now, self.name, event, "itself")
            self.carry_out(self.node.wake(event, now), now)
        elif self.state is State.PAUSED:
            self._backlog.append((self.wake, event))

    def _lose_link(self, event: tuple[PeerId, str], now: float) -> None:
        if self.state is State.UP:
            self._trace.note(now, self.name, event[1], short(event[0]))
            self.carry_out(self.node.link_lost(*event, now), now)
        elif self.state is State.PAUSED:
            self._backlog.append((self._lose_link, event))

    def _tell_lost(self, other: "SimPeer", reason: str, now: float) -> None:
        """The device tells another, one way's time later, unless nothing passes between them."""
        if self._network.passes(self.me.peer, other.me.peer):
            way_s = self._network.latency.one_way_s(self.place, other.place)
            self._heap.put(now + way_s, other._lose_link, (self.me.peer, reason))

    def pause(self) -> None:
        """Stand still, as under SIGSTOP: what arrives waits."""
        assert self.state is State.UP
        self.state = State.PAUSED
        self.changed_at = self._heap.now

    def resume(self) -> None:
        """Go on, and catch up with what has waited."""
        assert self.state is State.PAUSED
        self.state = State.UP
        self.changed_at = now = self._heap.now
        backlog, self._backlog = self._backlog, []
        for target, event in backlog:
            self._heap.put(now, target, event)

    def end(self, state: State) -> None:
        """This life is over. Whoever has a connection to a process that crashed or left sees it close."""
        assert self.runs and state not in RUNS
        self.state = state
        self.changed_at = now = self._heap.now
        self._backlog.clear()
        if state in REFUSES and self._network.faults.hints:
            for other, heard_at in self._links.values():
                if other.runs and now - heard_at <= IDLE_S:
                    self._tell_lost(other, "closed", now)
        self._links.clear()
