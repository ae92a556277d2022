"""Peers that keep one register, on virtual time, with everything that can go wrong; one seed, one trace.

Messages are lost, doubled, late (some later than any patience) and cut off by pairs. Peers crash, with the proposals
that run on them, and come back with what their disks have. Disks forget a file or flip a bit of it, as long as every
config that still matters keeps a majority that remembers. Users append, read, compare and set, and move the register.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any

from overlay.ids import Key, PeerId
from overlay.wire import decode, encode
from recovery.register.acceptor import Acceptor
from recovery.register.config import Config
from recovery.register.membership import Founding, Move
from recovery.register.messages import Abstained, Accept, Moved, Request
from recovery.register.proposer import (
    Again,
    Ask,
    Change,
    Decided,
    NoQuorum,
    Proposal,
    Refused,
    Standing,
    Steps,
    Unsure,
    Unwilling,
    Wait,
)
from recovery.register.store import Registers, name_of
from sim.heap import EventHeap
from sim.seeds import rng_of

APP = "taxi"
PATIENCE_S = 1.0
End = Decided | Refused | NoQuorum | Unsure | Unwilling


@dataclass
class MemoryDisk:
    """Whole files only. `is_lazy`: it says that a file is stored, and means the one before."""

    is_lazy: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)

    def put(self, name: str, data: bytes | memoryview) -> None:
        if self.is_lazy and name in self.files:
            self.stored[name] = self.files[name]
        self.files[name] = bytes(data)

    def get(self, name: str) -> bytes | None:
        return self.files.get(name)

    def delete(self, name: str) -> None:
        self.files.pop(name, None)
        self.stored.pop(name, None)

    def crash(self) -> None:
        if self.is_lazy:
            self.files |= self.stored

    def read(self, name: str, start: int, size: int) -> bytes:
        return self.files.get(name, b"")[start : start + size]

    def append(self, name: str, data: bytes | memoryview) -> None:
        raise NotImplementedError("a register keeps whole files")

    def sync(self, name: str) -> None:
        raise NotImplementedError("a register keeps whole files")

    def truncate(self, name: str, size: int) -> None:
        raise NotImplementedError("a register keeps whole files")

    def size(self, name: str) -> int:
        return len(self.files.get(name, b""))

    def names(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self.files if name.startswith(prefix))


@dataclass
class Peer:
    id: PeerId
    disk: MemoryDisk
    registers: Registers
    boots: int = 0
    is_up: bool = True


@dataclass
class Op:
    """One thing that a user wanted, and what came of it."""

    name: str
    kind: str
    began: float
    ended: float | None = None
    end: End | None = None

    @property
    def content(self) -> list[str] | None:
        return items(self.end.content) if isinstance(self.end, Decided | Refused) else None


def items(content: bytes | None) -> list[str]:
    return content.decode().split() if content else []


def appending(name: str, *, at_length: int | None = None) -> Change:
    """Append a name; with `at_length`, only to a list of so many."""

    def change(content: bytes | None) -> bytes | None:
        if at_length is not None and len(items(content)) != at_length:
            return None
        return " ".join([*items(content), name]).encode()

    return change


def reading(content: bytes | None) -> bytes | None:
    return content


class World:
    def __init__(
        self,
        seed: int,
        *,
        peers: int = 7,
        members: int = 3,
        loss: float = 0.0,
        doubling: float = 0.0,
        lateness: float = 0.0,
        is_disk_lazy: bool = False,
    ) -> None:
        self.seed = seed
        self.heap = EventHeap()
        self.loss, self.doubling, self.lateness = loss, doubling, lateness
        self.network = rng_of(seed, "network")
        self.dice = rng_of(seed, "dice")
        self.asks = count(1)
        self.peers: dict[PeerId, Peer] = {}
        for number in range(1, peers + 1):
            peer = PeerId(Key(number))
            disk = MemoryDisk(is_disk_lazy)
            self.peers[peer] = Peer(peer, disk, Registers(disk, peer, rng_of(seed, "tokens", number)))
        self.cuts: set[tuple[PeerId, PeerId]] = set()
        self.seen: Counter[str] = Counter()
        self.configs: set[Config] = set()
        self.ops: list[Op] = []
        self.moving_to: dict[int, Sequence[PeerId]] = {}
        self.first = self._found(members)

    # Driving one proposal.

    def start(self, me: PeerId, proposal: Proposal, on_end: Callable[[End], None]) -> None:
        Run(self, me, proposal, on_end).take(proposal.begin())

    def ends(self, me: int, proposal: Proposal, *, within_s: float = 600.0) -> End:
        """Run this one to its end, and whatever else is under way beside it."""
        ends: list[End] = []
        self.start(PeerId(Key(me)), proposal, ends.append)
        limit = self.heap.now + within_s
        while not ends and self.heap.now < limit:
            self.heap.run_to(self.heap.now + 0.01)
        assert ends, f"seed {self.seed}: no outcome within {within_s:g} s of virtual time"
        return ends[0]

    def proposal(
        self,
        me: int,
        change: Change,
        config: Config | None = None,
        *,
        standing: Standing | None = None,
        again: Again | None = None,
    ) -> Proposal:
        return Proposal(
            APP,
            config or self.first,
            PeerId(Key(me)),
            change,
            next_ask=lambda: next(self.asks),
            rng=self.dice,
            standing=standing,
            again=again,
        )

    def move(self, me: int, members: Sequence[int], config: Config | None = None, again: Again | None = None) -> Move:
        to = [PeerId(Key(it)) for it in members]
        return Move(
            APP,
            config or self.first,
            PeerId(Key(me)),
            to,
            next_ask=lambda: next(self.asks),
            rng=self.dice,
            again=again,
        )

    def founding(self, me: int, members: Sequence[int], change: Change) -> Founding:
        to = [PeerId(Key(it)) for it in members]
        return Founding(APP, to, PeerId(Key(me)), change, next_ask=lambda: next(self.asks), rng=self.dice)

    def _found(self, members: int) -> Config:
        faults = self.loss, self.doubling, self.lateness
        self.loss = self.doubling = self.lateness = 0.0
        end = self.ends(1, self.founding(1, range(1, members + 1), reading))
        self.loss, self.doubling, self.lateness = faults
        assert isinstance(end, Refused), end  # nothing is written yet, and to read that writes nothing
        return end.config

    # The network.

    def carry(self, sender: PeerId, to: PeerId, deliver: Callable[[], None]) -> None:
        rng = self.network
        for _ in range(2 if rng.random() < self.doubling else 1):
            if (sender, to) in self.cuts or rng.random() < self.loss:
                self.seen["lost"] += 1
                continue
            delay_s = rng.uniform(0.001, 0.05)
            if rng.random() < self.lateness:
                delay_s += rng.uniform(0.0, 4.0)
            self.heap.put(self.heap.now + delay_s, lambda event, now: deliver(), None)

    def ask(self, me: PeerId, ask: Ask, on_reply: Callable[[Any, bytes], None]) -> None:
        if isinstance(ask.request, Accept):
            named = ask.request.header.next
            self.configs |= {ask.request.config} | ({named} if named else set())
        raw = encode(ask.request)
        self.carry(me, ask.to, lambda: self._serve(me, ask.to, decode(raw), ask.body, on_reply))

    def _serve(
        self, asker: PeerId, to: PeerId, request: Request, body: bytes, on_reply: Callable[[Any, bytes], None]
    ) -> None:
        peer = self.peers[to]
        if not peer.is_up:
            return
        reply, content = peer.registers.answer(request, body)
        self.seen[f"{type(reply).__name__}{' ' + reply.why if isinstance(reply, Abstained) else ''}"] += 1
        if isinstance(reply, Moved):
            self.configs.add(reply.config)
        raw = encode(reply)
        self.carry(to, asker, lambda: on_reply(decode(raw), content))

    # Mishaps.

    def crash(self, peer: int) -> None:
        it = self.peers[PeerId(Key(peer))]
        it.is_up = False
        it.boots += 1
        it.disk.crash()

    def restart(self, peer: int) -> None:
        self.peers[PeerId(Key(peer))].is_up = True

    def forget(self, peer: int, *, is_damage: bool = False) -> None:
        """A file is gone, or a bit of it has flipped."""
        disk, name = self.peers[PeerId(Key(peer))].disk, name_of(APP)
        raw = disk.get(name)
        if raw is not None and is_damage:
            at = self.dice.randrange(len(raw))
            disk.put(name, raw[:at] + bytes([raw[at] ^ 1 << self.dice.randrange(8)]) + raw[at + 1 :])
        else:
            disk.delete(name)

    def token_of(self, peer: PeerId) -> int | None:
        votes = Acceptor.load(APP, peer, self.peers[peer].disk.get(name_of(APP))).votes
        return votes.token if votes else None

    def config_of(self, peer: PeerId) -> Config | None:
        votes = Acceptor.load(APP, peer, self.peers[peer].disk.get(name_of(APP))).votes
        return votes.config if votes else None

    def latest(self) -> Config:
        """The latest config that has a member."""
        found = [it for peer in self.peers if (it := self.config_of(peer))]
        return max(found, key=lambda it: it.number, default=self.first)

    def may_forget(self, peer: PeerId) -> bool:
        """Would a majority of every config that still matters, or may yet come, remember?"""
        if any(peer in members for members in self.moving_to.values()):
            return False
        latest = self.latest()
        for config in self.configs:
            if config.number >= latest.number - 1:
                whole = [m for m in config.members if m.peer != peer and self.token_of(m.peer) == m.token]
                if len(whole) < config.quorum:
                    return False
        return True


class Run:
    """One proposal on one peer: carries out its steps while that peer lives."""

    def __init__(self, world: World, me: PeerId, proposal: Proposal, on_end: Callable[[End], None]) -> None:
        self.world, self.me, self.proposal, self.on_end = world, me, proposal, on_end
        self.boots = world.peers[me].boots

    @property
    def is_alive(self) -> bool:
        return self.world.peers[self.me].boots == self.boots

    def take(self, steps: Steps) -> None:
        world = self.world
        for step in steps:
            if isinstance(step, Ask):
                world.ask(self.me, step, self._replier(step.request.ask))
                self._after(PATIENCE_S, partial(self.proposal.unanswered, step.request.ask))
            elif isinstance(step, Wait):
                world.seen["wait"] += 1
                self._after(step.seconds, self.proposal.waited)
            else:
                self.on_end(step)

    def _replier(self, ask: int) -> Callable[[Any, bytes], None]:
        def on_reply(reply: Any, body: bytes) -> None:
            if self.is_alive:
                self.take(self.proposal.answered(ask, reply, body))

        return on_reply

    def _after(self, seconds: float, then: Callable[[], Steps]) -> None:
        def due(event: Any, now: float) -> None:
            if self.is_alive:
                self.take(then())

        self.world.heap.put(self.world.heap.now + seconds, due, None)


class User:
    """Does one thing after another on one peer; after a crash it begins anew, with what it knew at first."""

    def __init__(self, world: World, number: int, moves: int) -> None:
        self.world, self.number, self.moves = world, number, moves
        self.rng: Random = rng_of(world.seed, "user", number)
        self.peer = self.rng.choice(sorted(world.peers))
        self.config = world.first
        self.standing: Standing | None = None
        self.boots = 0
        self.done = 0
        self.is_idle = True
        self.is_leaving = False

    def wake(self) -> None:
        """Called now and then: begin something, unless we are busy or dead."""
        home = self.world.peers[self.peer]
        if home.boots != self.boots:
            self.world.moving_to.pop(self.number, None)
            self.boots, self.is_idle, self.standing = home.boots, True, None
            self.config = self.world.first if self.rng.random() < 0.3 else self.config
        if not home.is_up or not self.is_idle or self.is_leaving:
            return
        self.done += 1
        kind = self.rng.choices(["append", "read", "set", "move"], [5, 2, 3, self.moves])[0]
        op = Op(f"{self.number}.{self.done}", kind, self.world.heap.now)
        self.world.ops.append(op)
        self.is_idle = False
        self._begin(op, None)

    def _begin(self, op: Op, again: Again | None) -> None:
        self.world.start(self.peer, self._proposal(op, again), lambda end: self._on_end(op, end))

    def _proposal(self, op: Op, again: Again | None) -> Proposal:
        world = self.world
        if op.kind == "move":
            members = self._members()
            world.moving_to[self.number] = [PeerId(Key(it)) for it in members]
            return world.move(self.peer, members, self.config, again)
        longest = max(len(it.content or []) for it in world.ops)
        at_length = longest if op.kind == "set" else None
        change = reading if op.kind == "read" else appending(op.name, at_length=at_length)
        standing = self.standing if self.rng.random() < 0.8 else None
        return world.proposal(self.peer, change, self.config, standing=standing, again=again)

    def _members(self) -> Sequence[int]:
        """Some stay, some go; sometimes five instead of three."""
        staying = self.rng.sample(self.config.peers, self.rng.randint(0, len(self.config.peers) - 1))
        others = [it for it in sorted(self.world.peers) if it not in staying]
        total = self.rng.choice([3, 3, 5])
        return [*staying, *self.rng.sample(others, max(0, total - len(staying)))][:5]

    def _on_end(self, op: Op, end: End) -> None:
        self.world.seen[f"{op.kind} {type(end).__name__}"] += 1
        self.world.moving_to.pop(self.number, None)
        if isinstance(end, NoQuorum):
            self.config = end.config
            if op.kind == "append":  # the others are given up: they may have happened
                self.world.heap.put(self.world.heap.now + 0.5, lambda event, now: self._once_more(op, end), None)
                return
        elif isinstance(end, Decided | Refused):
            self.config, self.standing = end.config, end.standing
        op.ended, op.end = self.world.heap.now, end
        self.is_idle = True

    def _once_more(self, op: Op, end: NoQuorum) -> None:
        if self.world.peers[self.peer].boots == self.boots:
            if self.rng.random() < 0.5:
                self.config = self.world.latest()  # as the directory would tell
            self._begin(op, end.again)


def storm(seed: int, *, moves: int = 2, forgetting: float = 0.05, **options: Any) -> World:
    """Users and mishaps for a while, then peace. `moves`: how often, where appending is 5; `forgetting`: of mishaps."""
    dice = rng_of(seed, "storm")
    world = World(
        seed,
        loss=dice.choice([0.0, 0.02, 0.2]),
        doubling=dice.choice([0.0, 0.05, 0.3]),
        lateness=dice.choice([0.0, 0.02, 0.2]),
        members=dice.choice([3, 3, 5]),
        **options,
    )
    users = [User(world, number, moves) for number in range(1, dice.randint(2, 5) + 1)]
    for _ in range(150):
        for user in users:
            if dice.random() < 0.5:
                user.wake()
        _mishap(world, dice, forgetting)
        world.heap.run_to(world.heap.now + dice.choice([0.005, 0.05, 0.3]))
    world.loss = world.doubling = world.lateness = 0.0
    world.cuts.clear()
    for user in users:
        user.is_leaving = True
    for peer in world.peers.values():
        peer.is_up = True
    world.heap.run_to(world.heap.now + 60.0)
    return world


def _mishap(world: World, dice: Random, forgetting: float) -> None:
    peer = dice.choice(sorted(world.peers))
    other = dice.choice(sorted(world.peers))
    roll = dice.random()
    if roll < 0.06:
        world.crash(peer)
        world.seen["crash"] += 1
    elif roll < 0.20:
        world.restart(peer)
    elif roll < 0.25:
        world.cuts.add((peer, other))
    elif roll < 0.35:
        world.cuts = set(sorted(world.cuts)[:-1])
    elif roll < 0.35 + forgetting and world.token_of(peer) is not None and world.may_forget(peer):
        world.forget(peer, is_damage=dice.random() < 0.5)
        world.seen["forgot"] += 1
