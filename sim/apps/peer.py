"""One simulated peer: an AppNode with a disk, timers, and work that is done one piece after the other.

A crash drops all but the disk; what was under way is never heard of again. A pause holds everything back: the peer then
finds all of it at once, late. A power cut inside of any work is a crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from dataflow.deploying.charter import Charter
from dataflow.deploying.requests import Measure, Measured, Room
from dataflow.generations.effects import (
    Ask,
    Changed,
    CloseSources,
    Do,
    Effect,
    Later,
    Noted,
    OpenSource,
    Refusal,
    Reply,
    SendRows,
    SyncSource,
    TrimSource,
    WriteSink,
)
from dataflow.generations.errands import Errands
from dataflow.generations.node import AppNode
from dataflow.generations.ports import Built, Ports
from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.share import Share
from dataflow.hosting.task import OnEpoch
from overlay.contact import Contact
from overlay.frames import Buffer
from overlay.ids import PeerId
from recovery.custody.holder import open_holder
from recovery.disk import DiskError
from recovery.holders import Candidate
from recovery.register.store import Registers
from recovery.source_log.log import SourceLog
from sim.apps.device import POLL_S, Reader, open_log
from sim.disk import PowerCut, SimDisk
from sim.seeds import rng_of

if TYPE_CHECKING:
    from sim.apps.world import AppWorld

SLOTS: Final = 8
HOLDER_BYTES: Final = 1 << 26
STEP_S: Final = 0.0005


class AppPeer:
    def __init__(self, world: AppWorld, peer: PeerId, zone: str, name: str, disk: SimDisk) -> None:
        self.peer = peer
        self.zone = zone
        self.name = name
        self.disk = disk
        self.life = 0
        self.is_up = False
        self.paused_until = 0.0
        self.contact = Contact(peer, "10.0.0.1", 4000, zone=zone)
        self.node: AppNode | None = None
        self.readers: dict[InstanceId, Reader] = {}
        self._logs: dict[InstanceId, SourceLog] = {}
        self._world = world
        self._heap = world.heap
        self._rng = rng_of(world.seed, "peer", name)
        self._queues: dict[Hashable, deque[Do]] = {}
        self._wakes: set[float] = set()
        self._is_stepping = False

    # -- lives --

    def start(self, now: float) -> None:
        """Boot: a new life on the same disk."""
        assert not self.is_up
        if self.disk.is_off:
            self.disk.reboot()
        self.life += 1
        self.is_up = True
        self.paused_until = 0.0
        boot_ms = int(now * 1000) + self.life
        self.contact = Contact(self.peer, "10.0.0.1", 4000, zone=self.zone, boot_ms=boot_ms)
        self.readers, self._logs, self._queues, self._wakes = {}, {}, {}, set()
        self._is_stepping = False
        numbers = count(boot_ms << 20)

        def take(amount: int) -> int:
            first = next(numbers)
            for _ in range(amount - 1):
                next(numbers)
            return first

        world, rng = self._world, rng_of(world_seed := self._world.seed, "node", self.name, self.life)
        ports = Ports(
            me=self.contact,
            errands=Errands(take),
            disk=self.disk,
            build=self._build,
            contact_of=world.contact_of,
            holder=lambda: self.candidate(),
            candidates=lambda: world.candidates(self),
        )
        self.node = AppNode(
            ports,
            registers=Registers(self.disk, self.peer, rng_of(world_seed, "register", self.name, self.life)),
            holder=open_holder(self.disk, bytes_max=HOLDER_BYTES),
            rng=rng,
            settings=world.settings,
        )
        self._world.say(self, "boots", f"life {self.life}")
        self.carry(self.node.start(now), now)

    def crash(self, why: str) -> None:
        if not self.is_up:
            return
        self._world.say(self, "crashes", why)
        self.is_up = False
        self.node = None
        self.disk.crash()
        self._world.on_crash(self)

    def candidate(self) -> Candidate:
        return Candidate(self.peer, self.zone, 5.0, 1 << 30, 1e6)

    def room(self) -> Room:
        return Room(self.contact, SLOTS, 0, 0.0, 1000)

    def _build(self, charter: Charter, on_epoch: OnEpoch | None) -> Built:
        share = Share(self._world.plan, charter.assignment, self.peer, boot_ms=self.contact.boot_ms, on_epoch=on_epoch)
        return Built(share, lambda: None)

    # -- what happens --

    def act(self, life: int, what: Callable[[float], None], now: float) -> None:
        """Let something happen to this life of the peer; a paused one finds it later."""
        if life != self.life or not self.is_up:
            return
        if now < self.paused_until:
            self._heap.put(self.paused_until, lambda _, at: self.act(life, what, at), None)
            return
        try:
            what(now)
        except PowerCut as cut:
            self._world.struck["power cut"] += 1
            self.crash(f"power cut {cut}")

    def asked(self, sender: Contact, request: Any, body: Buffer, now: float) -> None:
        assert self.node is not None
        if isinstance(request, Measure):
            rooms = tuple(self._world.rooms(self))
            self.carry([Reply(sender, Measured(request.ask, rooms))], now)
            return
        self.carry(self.node.asked(sender, request, body, now), now)

    def answered(self, ask: int, reply: Any, body: Buffer, now: float) -> None:
        assert self.node is not None
        self.carry(self.node.answered(ask, reply, body, now), now)

    def unanswered(self, ask: int, reason: str, now: float) -> None:
        assert self.node is not None
        self.carry(self.node.unanswered(ask, reason, now), now)

    def frame(self, sender: PeerId, header: bytes, body: bytes, now: float) -> None:
        assert self.node is not None
        self.carry(self.node.frame(sender, header, body, now), now)

    def reconnected(self, peer: PeerId, now: float) -> None:
        assert self.node is not None
        self.carry(self.node.reconnected(peer, now), now)

    # -- effects --

    def carry(self, effects: list[Effect], now: float) -> None:
        for effect in effects:
            self._one(effect, now)
        self._world.look(self, now)
        self._step_soon(now)

    def _one(self, effect: Effect, now: float) -> None:
        world = self._world
        if isinstance(effect, Ask):
            world.network.ask(self, effect, now)
        elif isinstance(effect, Reply):
            world.network.reply(self, effect, now)
        elif isinstance(effect, SendRows):
            world.network.rows(self, effect, now)
        elif isinstance(effect, Do):
            self._queue(effect, now)
        elif isinstance(effect, Later):
            self._wake(effect.at)
        elif isinstance(effect, OpenSource):
            self._open(effect, now)
        elif isinstance(effect, CloseSources):
            self.readers.clear()
        elif isinstance(effect, SyncSource):
            self._queue(self._sync(effect), now)
        elif isinstance(effect, TrimSource):
            if effect.instance in self._logs:
                self._logs[effect.instance].trim(effect.offset)
        elif isinstance(effect, Refusal):
            world.refused[effect.reason] += 1
        elif isinstance(effect, Noted):
            world.noted(self, effect)
        else:
            assert isinstance(effect, WriteSink | Changed), effect

    def _wake(self, at: float) -> None:
        if at in self._wakes:
            return
        self._wakes.add(at)
        life = self.life

        def wake(now: float) -> None:
            self._wakes.discard(at)
            assert self.node is not None
            self.carry(self.node.woken(now), now)

        self._heap.put(at, lambda _, now: self.act(life, wake, now), None)

    # -- slow work, one after the other by key --

    def _queue(self, work: Do, now: float) -> None:
        waiting = self._queues.setdefault(work.key, deque())
        waiting.append(work)
        if len(waiting) == 1:
            self._begin(work.key, now)

    def _begin(self, key: Hashable, now: float) -> None:
        life = self.life
        takes_s = self._rng.uniform(0.0005, 0.006)
        self._heap.put(now + takes_s, lambda _, at: self.act(life, lambda then: self._run(key, then), at), None)

    def _run(self, key: Hashable, now: float) -> None:
        work = self._queues[key][0]
        try:
            result = work.work()
        except Exception as error:  # as the shell does: whoever asked for it hears what went wrong
            if not isinstance(error, DiskError):
                self._world.say(self, "raised", f"{type(error).__name__}: {error}")
            result = error
        life, delay_s = self.life, self.disk.take_delay_s()

        def done(at: float) -> None:
            self._queues[key].popleft()
            if self._queues[key]:
                self._begin(key, at)
            self.carry(work.then(result, at), at)

        self._heap.put(now + delay_s, lambda _, at: self.act(life, done, at), None)

    # -- steps --

    def _step_soon(self, now: float) -> None:
        if self._is_stepping or self.node is None:
            return
        found = self.node.next_step()
        if found is None:
            return
        self._is_stepping = True
        life, (app, task) = self.life, found

        def finish(at: float) -> None:
            task.run()
            self._is_stepping = False
            assert self.node is not None
            self.carry(self.node.stepped(app, task, at), at)

        takes_s = self._rng.uniform(STEP_S / 2, STEP_S * 2)
        self._heap.put(now + takes_s, lambda _, at: self.act(life, finish, at), None)

    # -- sources --

    def _open(self, it: OpenSource, now: float) -> None:
        device = self._world.devices[it.name]
        assert self._world.home_of[it.name] == self.peer, "a source was opened on another device than its own"
        try:
            log = self._logs.get(it.instance)
            if log is None:
                log = self._logs[it.instance] = open_log(self.disk, f"source-{it.name}", it.offset)
        except DiskError as error:
            self._world.violation(f"source {it.name} cannot be read again from {it.offset}: {error}")
            return
        if not log.first <= it.offset <= log.end:
            self._world.violation(f"source {it.name} holds {log.first} to {log.end}, and {it.offset} is asked for")
            return
        self.readers[it.instance] = reader = Reader(device, log, it.generation, it.offset)
        self._pump(it, reader, now)

    def _pump(self, it: OpenSource, reader: Reader, now: float) -> None:
        if self.readers.get(it.instance) is not reader:
            return
        life = self.life
        self._heap.put(now + POLL_S, lambda _, at: self.act(life, lambda then: self._pump(it, reader, then), at), None)
        node = self.node
        while node is not None and node.wants(it.app, it.generation, it.instance):
            found = reader.read(now)
            if found is None:
                return
            message, units = found
            self.carry(node.feed(it.app, it.instance, message, units, now), now)

    def _sync(self, it: SyncSource) -> Do:
        def work() -> None:
            if it.instance in self._logs:
                self._logs[it.instance].sync()

        def then(result: Any, now: float) -> list[Effect]:
            assert self.node is not None
            if isinstance(result, BaseException):
                return []
            return self.node.synced(it.app, it.generation, it.instance, it.epoch, now)

        return Do(("sync", it.instance), work, then)
