"""Carry out what the apps of this peer want: questions, frames, disks, threads, sources, sinks, time.

The machines are `dataflow.generations.node.AppNode`; the simulator carries out the same effects on virtual time.

    Ask, Reply   the courier                     Do           a thread; equal keys one after the other
    SendRows     one writer for each peer        Later        one timer
    *Source      peer/reading_trio.py            WriteSink    peer/writing_trio.py, and whoever waits for rows
    steps        one thread for each core; small ones on trio's own thread

The node is touched by trio's thread alone, so there is no lock. A peer that cannot be reached is tried again: a broken
connection loses no row, because shares repeat what was not acknowledged. Whether it is dead is not for us to say.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from random import SystemRandom
from typing import Any, Final

import trio

from dataflow.connectors.protocol import SinkConnector, SourceConnector
from dataflow.deploying.charter import Charter
from dataflow.deploying.requests import Agreed, Measure
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
    TakenIn,
    TrimSource,
    WriteSink,
)
from dataflow.generations.errands import Errands
from dataflow.generations.keeper import Keeper, Stage
from dataflow.generations.messages import Depart
from dataflow.generations.node import AppNode
from dataflow.generations.ports import Build, Ports
from dataflow.generations.record import Record
from dataflow.hosting.kept_rows import KeptRows, Reading
from dataflow.hosting.stamps import age_ms
from dataflow.hosting.task import Task
from dataflow.plan import Plan
from overlay.contact import Contact
from overlay.effects import Confirmed
from overlay.frames import Buffer
from overlay.ids import PeerId, short
from overlay.links import UnreachableError
from overlay.wire import WireError
from peer.courier_trio import Answer, Courier, Unanswered
from peer.courier_trio import Refusal as Decline
from peer.histogram import Histogram
from peer.offers import SOURCE, read_offer
from peer.reading_trio import Readers
from peer.runtime import Runtime
from peer.writing_trio import Writers
from recovery.custody.holder import open_holder
from recovery.disk import Disk
from recovery.holders import Candidate
from recovery.register.store import Registers

ROWS_MARK: Final = b"="
"""The first byte of every frame between instances."""
RETRY_S: Final = 0.5
"""Pause before a peer that could not be reached is tried again."""
REPLY_S_MAX: Final = 120.0
"""What a question may wait for its answer here: restoring a large state takes the longest."""
FRAGMENTS_BYTES_MAX: Final = 8 << 30
"""Room for other peers' fragments."""
MTBF_S: Final = 30 * 24 * 3600.0
"""Taken for peers of which nothing else is known: a failure a month."""

OFFERS_S: Final = 3.0
"""How often whoever looks after an app looks for devices that bring a source of it."""
DEPART_S_MAX: Final = 10.0
"""What a leave may wait for its apps to be elsewhere. Those that are not are taken for lost, and recover."""

_UNLIMITED = trio.CapacityLimiter(10_000)  # steps have a limiter of their own; disks and builds mostly wait


class AppShell:
    def __init__(
        self,
        runtime: Runtime,
        courier: Courier,
        *,
        disk: Disk,
        limiter: trio.CapacityLimiter,
        build: Build,
        plan_of: Callable[[Charter], Plan],
        source: Callable[[Any, str], SourceConnector],
        sink: Callable[[str], SinkConnector | None],
        on_changed: Callable[[str], None],
        on_noted: Callable[[str, str, str], None],
    ) -> None:
        self.runtime = runtime
        self.ages: dict[tuple[str, str], Histogram] = {}
        """For each sink, how old its rows were when it had taken them: see dataflow/hosting/stamps.py."""
        self._courier = courier
        self._disk = disk
        self._limiter = limiter
        self._build = build
        self._plan_of = plan_of
        self._on_changed = on_changed
        self._on_noted = on_noted
        self._node: AppNode | None = None
        self._nursery: trio.Nursery | None = None
        self._queues: dict[Hashable, deque[Do]] = {}
        self._outboxes: dict[PeerId, deque[SendRows]] = {}
        self._wake: dict[PeerId, trio.Event] = {}
        self._waiting: dict[tuple[PeerId, int], tuple[trio.Event, list[Reply]]] = {}
        self._news = trio.Event()
        self._moved = trio.Event()
        self._due = math.inf
        self._timer = trio.Event()
        self._rows: dict[tuple[str, str], trio.Event] = {}
        self.readers = Readers(self, source, disk)
        self.writers = Writers(self, sink)
        self._carry_out: Mapping[type, Callable[[Any], None]] = {
            Ask: lambda it: self.start_soon(self._ask, it),
            Reply: self._reply,
            Do: self._queue,
            Later: self._wake_at,
            SendRows: self._send,
            OpenSource: self.readers.open,
            CloseSources: self.readers.close,
            SyncSource: self.readers.sync,
            TrimSource: self.readers.trim,
            WriteSink: self._write_sink,
            TakenIn: self._note_age,
            Changed: self._change,
            Noted: lambda it: self._on_noted(it.app, it.what, it.detail),
            Refusal: self._count_refusal,
        }

    @property
    def node(self) -> AppNode:
        assert self._node is not None, "the peer is not running yet"
        return self._node

    @property
    def is_running(self) -> bool:
        return self._node is not None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry out until cancelled."""
        me = self.runtime.nodes[0].me
        rng = SystemRandom()
        holder = await trio.to_thread.run_sync(lambda: open_holder(self._disk, bytes_max=FRAGMENTS_BYTES_MAX))
        ports = Ports(
            me=me,
            errands=Errands(self._courier.numbers),
            disk=self._disk,
            build=self._build,
            contact_of=self._known,
            holder=lambda: Candidate(me.peer, me.zone, 0.0, FRAGMENTS_BYTES_MAX, MTBF_S),
            candidates=self._candidates,
        )
        self._node = AppNode(ports, registers=Registers(self._disk, me.peer, rng), holder=holder, rng=rng)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for kind in self._node.questions:
                self._courier.answer(kind, self.answer, is_default=True)
            nursery.start_soon(self._tick)
            nursery.start_soon(self._watch_offers)
            self.runtime.observe(self._on_observed)
            nursery.start_soon(self._step)
            self.carry(self._node.start(self.now()))
            task_status.started()
            await trio.sleep_forever()

    def now(self) -> float:
        return trio.current_time()

    def note(self, app: str, what: str, detail: str) -> None:
        self._on_noted(app, what, detail)

    def start_soon(self, task: Callable[..., Any], *arguments: Any) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task, *arguments)

    def carry(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._carry_out[type(effect)](effect)
        self._news.set()

    # -- questions --

    async def answer(self, asker: Contact, request: Any, body: Buffer) -> Answer:
        """A question to the node, whose answer may take a while."""
        place = (asker.peer, request.ask)
        is_answered, box = self._waiting[place] = (trio.Event(), [])
        try:
            self.carry(self.node.asked(asker, request, body, self.now()))
            with trio.move_on_after(REPLY_S_MAX):
                await is_answered.wait()
        finally:
            del self._waiting[place]
        if not box:
            raise Decline("had no answer in time")
        return Answer(box[0].reply, (box[0].body,) if len(box[0].body) else ())

    def _reply(self, it: Reply) -> None:
        waiting = self._waiting.get((it.to.peer, it.reply.ask))
        if waiting is not None and not waiting[1]:
            waiting[1].append(it)
            waiting[0].set()

    async def _ask(self, it: Ask) -> None:
        number = it.request.ask
        try:
            contact = await self._find(it)
            answer = await self._courier.ask(contact, it.request, it.body, within_s=it.within_s)
        except Unanswered as error:
            self.carry(self.node.unanswered(number, str(error), self.now()))
        else:
            body = answer.body[0] if len(answer.body) == 1 else b"".join(bytes(part) for part in answer.body)
            self.carry(self.node.answered(number, answer.reply, body, self.now()))

    async def _find(self, it: Ask) -> Contact:
        """Where it lives now: what we know ourselves is newer than what a record says."""
        known = self._known(it.to) or it.contact
        if known is not None:
            return known
        for contact in await self.runtime.find(it.to):
            if contact.peer == it.to:
                return contact
        raise Unanswered(f"nobody knows where peer {short(it.to)} lives")

    def _known(self, peer: PeerId) -> Contact | None:
        """Where a peer lives, as far as we know without asking."""
        node = self.runtime.nodes[0]
        if peer == node.me.peer:
            return node.me
        return next((it for it in node.view.contacts() if it.peer == peer), None)

    def _candidates(self) -> list[Candidate]:
        """Our leaf set and neighbourhood, as holders of fragments."""
        view = self.runtime.nodes[0].view
        found = []
        for contact in view.contacts():
            if contact.peer not in view.suspects:
                rtt_ms = view.facts.rtt_s(contact.peer) * 1000
                found.append(Candidate(contact.peer, contact.zone, rtt_ms, FRAGMENTS_BYTES_MAX, MTBF_S))
        return found

    def _on_observed(self, me: PeerId, effect: Any) -> None:
        if isinstance(effect, Confirmed):
            self.carry(self.node.confirmed_dead(effect.contact, self.now()))

    async def _watch_offers(self) -> None:
        """Devices that bring a source of an app that we look after, for the first time or back."""
        plans: dict[str, Plan] = {}
        while True:
            await trio.sleep(OFFERS_S)
            for app, caretaker in list(self.node.caretakers.items()):
                keeper = caretaker.keeper
                if not keeper.is_leading or keeper.stage is not Stage.RUNNING:
                    continue
                if app not in plans:
                    plans[app] = await trio.to_thread.run_sync(self._plan_of, caretaker.charter)
                for name, stage in plans[app].sources.items():
                    for contact in await self._offering(name):
                        if keeper.lacks(stage, contact) and await self._lives(contact):
                            offer = partial(_offer, stage=stage, contact=contact, now=self.now())
                            self.carry(caretaker.tell(offer, self.now()))

    async def _offering(self, name: str) -> list[Contact]:
        found = []
        for record in (await self.runtime.get(SOURCE, name)).records:
            try:
                found.append(read_offer(record))
            except WireError:
                continue  # one device's rubbish hides nobody else's offer
        return found

    async def _lives(self, contact: Contact) -> bool:
        """The directory remembers a device for a while after its death."""
        try:
            await self._courier.ask(contact, Measure(self._courier.numbers(1)), within_s=2.0)
        except Unanswered:
            return False
        return True

    async def depart(self) -> None:
        """We leave: what runs here goes elsewhere first, from an epoch in which sources hold their breath."""
        with trio.move_on_after(DEPART_S_MAX):
            for app, tenancy in list(self.node.tenancies.items()):
                charter = tenancy.charter
                if tenancy.is_over or charter is None or not await self._ask_to_move(app, charter.record):
                    continue
                while not tenancy.is_over:
                    self._moved = trio.Event()
                    await self._moved.wait()

    async def _ask_to_move(self, app: str, record: Record) -> bool:
        for peer in record.members:
            contact = self._known(peer) or record.contact_of(peer)
            if contact is None:
                continue
            try:
                answer = await self._courier.ask(contact, Depart(self._courier.numbers(1), app), within_s=2.0)
            except Unanswered:
                continue
            if isinstance(answer.reply, Agreed):
                return True
        return False

    # -- time, threads --

    def _change(self, it: Changed) -> None:
        self._moved.set()
        self._on_changed(it.app)

    def _wake_at(self, it: Later) -> None:
        if it.at < self._due:
            self._due = it.at
            self._timer.set()

    async def _tick(self) -> None:
        while True:
            self._timer = trio.Event()
            with trio.move_on_at(self._due):
                await self._timer.wait()
                continue
            self._due = math.inf
            self.carry(self.node.woken(self.now()))

    def _queue(self, it: Do) -> None:
        queue = self._queues.get(it.key)
        if queue is not None:
            queue.append(it)
            return
        self._queues[it.key] = deque([it])
        self.start_soon(self._work_off, it.key)

    async def _work_off(self, key: Hashable) -> None:
        queue = self._queues[key]
        while queue:
            it = queue.popleft()
            result: Any
            try:
                result = await trio.to_thread.run_sync(it.work, abandon_on_cancel=True, limiter=_UNLIMITED)
            except Exception as error:
                result = error
            self.carry(it.then(result, self.now()))
        del self._queues[key]

    async def _step(self) -> None:
        while True:
            self._news = trio.Event()
            found = self.node.next_step()
            if found is None:
                await self._news.wait()
                continue
            app, task = found
            if task.is_light:
                task.run()
                self.carry(self.node.stepped(app, task, self.now()))
                self.readers.feed_wanted()
                await trio.lowlevel.checkpoint()
                continue
            await self._limiter.acquire_on_behalf_of(task)
            self.start_soon(self._run_step, app, task)

    async def _run_step(self, app: str, task: Task) -> None:
        try:
            await trio.to_thread.run_sync(task.run, abandon_on_cancel=True, limiter=_UNLIMITED)
        finally:
            self._limiter.release_on_behalf_of(task)
        self.carry(self.node.stepped(app, task, self.now()))
        self.readers.feed_wanted()

    # -- rows --

    def frame(self, sender: PeerId, header: Buffer, body: Buffer) -> None:
        self.carry(self.node.frame(sender, header, body, self.now()))

    def _count_refusal(self, it: Refusal) -> None:
        self.runtime.counters[f"refused.{it.reason}"] += 1

    def _send(self, it: SendRows) -> None:
        """Bounded by the credit of the edges: what has none waits in the share."""
        peer = it.to.peer
        if peer not in self._outboxes:
            self._outboxes[peer] = deque()
            self.start_soon(self._write, peer)
        self._outboxes[peer].append(it)
        if peer in self._wake:
            self._wake[peer].set()

    async def _write(self, peer: PeerId) -> None:
        waiting = self._outboxes[peer]
        while True:
            if not waiting:
                self._wake[peer] = trio.Event()
                await self._wake[peer].wait()
                continue
            it = waiting[0]
            try:
                await self.runtime.send_data(self._known(peer) or it.to, ROWS_MARK + it.header, it.body)
                if waiting and waiting[0] is it:
                    waiting.popleft()
            except UnreachableError:
                await trio.sleep(RETRY_S)
                waiting.clear()  # shares repeat whatever counts
                self.carry(self.node.reconnected(peer, self.now()))

    def _write_sink(self, it: WriteSink) -> None:
        event = self._rows.pop((it.app, it.sink), None)
        if event is not None:
            event.set()
        self.writers.write(it)

    def _note_age(self, it: TakenIn) -> None:
        age_s = age_ms(it.stamp, time.time_ns() // 1_000_000) / 1000
        self.ages.setdefault((it.app, it.sink), Histogram()).note(age_s, count=it.rows)

    async def read(self, app: str, stream: str, reader: str, position: int, *, wait_s: float) -> Reading:
        """Rows of a finished stream from a position on (-1: from now on); waits for some."""
        kept = self._kept(app, stream)
        if position < 0:
            position = kept.rows
        kept.attach(reader, position, self.now())
        with trio.move_on_after(wait_s):
            while kept.rows <= position and not kept.is_ended:
                await self._rows.setdefault((app, stream), trio.Event()).wait()
                kept = self._kept(app, stream)
        reading = kept.read(reader, position, self.now())
        if reading.is_ended:
            kept.detach(reader)
        self.carry(self.node.tenancies[app].take_arrivals(self.now()))
        return reading

    def _kept(self, app: str, stream: str) -> KeptRows:
        """A new generation may have taken a stream away while somebody waited for its rows."""
        tenancy = self.node.tenancies.get(app)
        if tenancy is None or stream not in tenancy.streams:
            raise Decline(f'does not keep stream "{stream}" of that app')
        return tenancy.streams[stream].kept


def _offer(keeper: Keeper, *, stage: int, contact: Contact, now: float) -> list[Any]:
    return keeper.offered(stage, contact, now)
