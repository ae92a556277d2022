"""Run one share without a ring around it, as the peer's shell does: for comparing how the next instance is chosen.

    frames come in        -> share.feed            steps             -> threads, one for each core; light ones here
    connectors read       -> share.feed_source     frames go out     -> one writer for each peer, in order
    sinks take rows       -> share.taken           failures          -> whoever hosts us

The share itself is touched by trio's thread alone; only `Task.run` leaves it, so there is no lock, and a user's
function that never returns costs one thread and no heartbeat.

A peer that cannot be reached is tried again: a broken connection loses no row, because the share repeats what was not
acknowledged. Whether that peer is dead is not for us to say.

Rejected: threads that call back into the share under a lock (the event loop would wait for numpy).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import trio

from dataflow.connectors.protocol import Letters, SourceConnector
from dataflow.connectors.reading import message_of
from dataflow.dead_letters import dead_letters
from dataflow.hosting.effects import Arrived, Effect, Failed, ReadRegister, Ready, Refused, SendFrame
from dataflow.hosting.share import Share
from dataflow.hosting.stamps import NO_STAMP, age_ms, stamp_of
from dataflow.hosting.task import Task
from dataflow.messages import Data, End, Idle, Message
from dataflow.operators.base import SIDE
from overlay.frames import Buffer
from overlay.ids import PeerId
from overlay.links import UnreachableError
from peer.histogram import Histogram

IDLE_AFTER_S: Final = 1.0
"""A source that brings nothing for so long is not waited for by others' watermarks."""
LINGER_S_MAX: Final = 10.0
"""How long we stay after our own end for readers that have not acknowledged it. A reader that is gone never will."""
READ_AHEAD: Final = 2
"""Messages that a connector's thread hands over before the share wants them: one on its way, one being made."""
RETRY_S: Final = 0.5
"""Pause before a peer that could not be reached is tried again."""

SendData = Callable[[PeerId, bytes, Sequence[Buffer]], Awaitable[None]]


class Taking(Protocol):
    """What a sink does with rows; may wait, and so slows the app."""

    async def take(self, message: Message) -> None: ...


@dataclass(slots=True)
class _Reading:
    """One connector at work. Its thread hands over `READ_AHEAD` messages, then waits for `room`."""

    name: str
    copy: int
    heard_at: float
    room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(READ_AHEAD))
    read: deque[tuple[Message | Letters, int]] = field(default_factory=deque)
    is_over: bool = False

    def let_go(self) -> None:
        """Nothing more is heard of the thread; one that waits for room may end."""
        self.is_over = True
        self.room.release()


class ShareRunner:
    """`run` until the share has ended, has failed, or is cancelled."""

    def __init__(
        self,
        share: Share,
        *,
        send: SendData,
        sources: Mapping[tuple[str, int], SourceConnector],
        sinks: Mapping[str, Taking],
        limiter: trio.CapacityLimiter,
        on_refused: Callable[[Refused], None],
    ) -> None:
        self.share = share
        self.failure: str | None = None
        self.ages = {name: Histogram() for name in sinks}
        """For each sink, how old its rows were when it had dealt with them: see dataflow/hosting/stamps.py."""
        self._send = send
        self._sources = sources
        self._sinks = sinks
        self._limiter = limiter
        self._on_refused = on_refused
        self._outboxes: dict[PeerId, deque[SendFrame]] = {}
        self._arrivals: dict[str, deque[Arrived]] = {name: deque() for name in sinks}
        self._news = trio.Event()
        self._readings: dict[tuple[str, int], _Reading] = {}
        self._nursery: trio.Nursery | None = None
        self._has_begun = trio.Event()
        self._draining = trio.Event()
        self._is_closed = False
        self._wake: dict[object, trio.Event] = {}
        self._carry_out: dict[type, Callable[[Any], None]] = {
            SendFrame: self._queue_frame,
            Arrived: self._queue_arrival,
            Ready: self._on_ready,
            Refused: self._on_refused,
            Failed: lambda it: self._fail(it.sentence),
            ReadRegister: lambda it: None,  # there is no register yet: a later generation is launched anew
        }

    @property
    def has_begun(self) -> bool:
        return self._has_begun.is_set()

    def begin(self) -> None:
        """All hosts are ready: let the sources speak."""
        self._has_begun.set()

    def drain(self) -> None:
        """End the sources; what is under way still reaches the sinks."""
        self._draining.set()
        self._has_begun.set()

    def close_sources(self) -> None:
        """Read no more. What was read goes on, but nothing has ended: open windows give no result."""
        self._is_closed = True
        self._draining.set()

    def feed(self, sender: PeerId, header: Buffer, body: Buffer) -> None:
        self._carry(self.share.feed(sender, header, body))

    async def run(self) -> None:
        """Returns when everything here has ended; `failure` says why, if it did before its time."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for name in self._sinks:
                nursery.start_soon(self._take_arrivals, name)
            for place in self._sources:
                nursery.start_soon(self._read, *place)
            for peer in self._outboxes:
                nursery.start_soon(self._write, peer)
            self._carry(self.share.start())
            await self._step()
            if self.failure is None:
                await self._linger()
            nursery.cancel_scope.cancel()

    # -- steps --

    async def _step(self) -> None:
        assert self._nursery is not None
        while self.failure is None and not self._is_over():
            self._news = trio.Event()
            task = self.share.begin()
            if task is None:
                await self._news.wait()
                continue
            if task.is_light:
                task.run()
                self._carry(self.share.finish(task))
                await trio.lowlevel.checkpoint()
                continue
            await self._limiter.acquire_on_behalf_of(task)
            self._nursery.start_soon(self._work, task)

    async def _work(self, task: Task) -> None:
        try:
            await trio.to_thread.run_sync(task.run, abandon_on_cancel=True, limiter=_UNLIMITED)
        finally:
            self._limiter.release_on_behalf_of(task)
        self._carry(self.share.finish(task))
        self._news.set()

    def _is_over(self) -> bool:
        """All input has ended, and nothing waits here any more."""
        return self.share.ended and not any(self._arrivals.values()) and not self.share.can_run()

    async def _linger(self) -> None:
        """Until our last frames are sent and acknowledged: whoever lacks one will ask us for it."""
        with trio.move_on_after(LINGER_S_MAX):
            while any(self._outboxes.values()) or self.share.kept_bytes():
                self._news = trio.Event()
                await self._news.wait()

    # -- effects --

    def _carry(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._carry_out[type(effect)](effect)
        self._news.set()

    def _fail(self, sentence: str) -> None:
        self.failure = self.failure or sentence
        self._news.set()

    def _queue_frame(self, effect: SendFrame) -> None:
        """Bounded by the credit of the edges: what has none waits in the share."""
        if effect.peer not in self._outboxes:
            self._outboxes[effect.peer] = deque()
            if self._nursery is not None:  # else `run` will: another host may speak to us before it is called
                self._nursery.start_soon(self._write, effect.peer)
        self._outboxes[effect.peer].append(effect)
        self._awaken(effect.peer)

    def _queue_arrival(self, effect: Arrived) -> None:
        self._arrivals[effect.sink].append(effect)
        self._awaken(effect.sink)

    def _awaken(self, who: object) -> None:
        event = self._wake.get(who)
        if event is not None:
            event.set()

    async def _rest(self, who: object) -> None:
        self._wake[who] = trio.Event()
        await self._wake[who].wait()

    # -- what goes out --

    async def _write(self, peer: PeerId) -> None:
        waiting = self._outboxes[peer]
        while True:
            if not waiting:
                self._news.set()
                await self._rest(peer)
                continue
            try:
                await self._send(peer, waiting[0].header, waiting[0].body)
                waiting.popleft()
            except UnreachableError:
                await trio.sleep(RETRY_S)
                waiting.clear()  # the share repeats whatever counts
                self._carry(self.share.reconnected(peer))

    async def _take_arrivals(self, name: str) -> None:
        waiting, sink = self._arrivals[name], self._sinks[name]
        while True:
            if not waiting:
                self._news.set()
                await self._rest(name)
                continue
            try:
                await sink.take(waiting[0].message)
            except Exception as error:
                self._fail(f'sink "{name}" failed: {type(error).__name__}: {error}')
                return
            self._note_age(waiting.popleft())
            self.share.taken(name)
            self._news.set()

    def _note_age(self, arrived: Arrived) -> None:
        if arrived.stamp and isinstance(arrived.message, Data):
            age = age_ms(arrived.stamp, _wall_ms())
            self.ages[arrived.sink].note(age / 1000, count=arrived.message.batch.num_rows)

    # -- what comes in --

    async def _read(self, name: str, copy: int) -> None:
        """One connector, from the first row to its end, its failure, or a drain."""
        await self._has_begun.wait()
        reading = self._readings[name, copy] = _Reading(name, copy, heard_at=trio.current_time())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._mark_idle, reading)
                nursery.start_soon(self._obey_drain, nursery.cancel_scope)
                await self._read_to_end(reading)
                nursery.cancel_scope.cancel()
        finally:
            reading.let_go()
        if self.failure is None and not self._is_closed:
            reading.read.append((End(), NO_STAMP))
            self._feed_wanted(reading)

    async def _obey_drain(self, reading: trio.CancelScope) -> None:
        """A connector may block for ever in its read: who drains does not wait for it."""
        await self._draining.wait()
        reading.cancel()

    async def _read_to_end(self, reading: _Reading) -> None:
        token = trio.lowlevel.current_trio_token()

        def take(message: Message | Letters) -> None:
            token.run_sync_soon(self._take_read, reading, message)

        try:
            # What the thread handed over comes before its end: both take the same way into trio.
            await trio.to_thread.run_sync(self._read_all, reading, take, abandon_on_cancel=True, limiter=_UNLIMITED)
        except Exception as error:
            self._fail(f'source "{reading.name}" failed: {error}')

    def _read_all(self, reading: _Reading, take: Callable[[Message | Letters], None]) -> None:
        """On a thread of its own, which may outlive the share: nothing that it says then is heard."""
        name = reading.name
        schema = self.share.plan.stages[self.share.plan.sources[name]].nodes[0].draft.outputs[0].schema
        for each in self._sources[name, reading.copy].read(schema):
            message = each if isinstance(each, Letters) else message_of(name, schema, each)
            reading.room.acquire()
            if reading.is_over:
                return
            take(message)

    def _take_read(self, reading: _Reading, message: Message | Letters) -> None:
        if not reading.is_over:
            reading.heard_at = trio.current_time()
            # Before it waits for room: that is part of its way.
            reading.read.append((message, stamp_of(_wall_ms())))
            self._feed_wanted(reading)

    async def _mark_idle(self, reading: _Reading) -> None:
        while True:
            due = reading.heard_at + IDLE_AFTER_S
            await trio.sleep_until(due)
            if reading.heard_at + IDLE_AFTER_S == due:
                reading.heard_at = trio.current_time()
                if not reading.read and self.share.wants(reading.name, reading.copy):
                    self._feed(reading, Idle(), NO_STAMP)

    def _on_ready(self, effect: Ready) -> None:
        reading = self._readings.get((effect.source, effect.copy))
        if reading is not None:
            self._feed_wanted(reading)

    def _feed_wanted(self, reading: _Reading) -> None:
        while reading.read and self.share.wants(reading.name, reading.copy):
            self._feed(reading, *reading.read.popleft())
            reading.room.release()

    def _feed(self, reading: _Reading, message: Message | Letters, stamp: int) -> None:
        if isinstance(message, Letters):
            self.share.feed_side(reading.name, SIDE, Data(dead_letters(message.letters)), reading.copy)
        else:
            self.share.feed_source(reading.name, message, reading.copy, stamp=stamp)
        self._news.set()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


_UNLIMITED = trio.CapacityLimiter(10_000)  # steps have a limiter of their own; a connector's thread mostly waits
