"""Sources of the apps here: read by connectors on threads of their own, fed as the app wants it, readable again.

A connector that can give the same again (a file, a generator) is simply read again from an offset. Any other has a log
on the device: what it brings is appended, and the app is fed from there; so whatever a rollback forgets is still there,
and a connector that acknowledges (MQTT, HTTP) does so only for what is on disk. A full log, or a full disk, makes the
connector wait, and says so.

Whoever closes a source does not wait for a connector that blocks in its read: its thread is left to itself, and nothing
that it says then is heard.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgpack
import pyarrow as pa
import trio

from dataflow.connectors.protocol import Letters, SourceConnector
from dataflow.connectors.reading import message_of
from dataflow.connectors.replaying import is_replayable, read_after
from dataflow.generations.effects import CloseSources, OpenSource, SyncSource, TrimSource
from dataflow.generations.life import life_of
from dataflow.generations.promise import Guarantee
from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.stamps import NO_STAMP, stamp_of
from dataflow.messages import Data, End, Idle, Message
from recovery.disk import Disk, DiskFull
from recovery.source_log.log import SourceLog

if TYPE_CHECKING:
    from peer.apps_trio import AppShell

IDLE_AFTER_S: Final = 1.0
"""A source that brings nothing for so long is not waited for by others' watermarks."""
READ_AHEAD: Final = 4
"""Messages that a connector's thread may be ahead of the app."""
FULL_S: Final = 0.2
"""Pause before a full log is tried again."""
LOG_READ_BYTES: Final = 4 << 20
ROWS, LETTERS, END = 0, 1, 2

_UNLIMITED = trio.CapacityLimiter(10_000)


@dataclass(slots=True)
class _Reading:
    """One source being fed, in one generation."""

    it: OpenSource
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(READ_AHEAD))
    read: deque[tuple[Message | Letters, int, int]] = field(default_factory=deque)
    heard_at: float = 0.0
    is_over: bool = False

    def let_go(self) -> None:
        """Nothing more is heard of the thread; one that waits for room may end."""
        self.is_over = True
        self.scope.cancel()
        self.room.release()


@dataclass(slots=True)
class _Logged:
    """A connector that cannot read again, and the log of what it brought. Outlives generations."""

    log: SourceLog
    lock: threading.Lock = field(default_factory=threading.Lock)
    news: trio.Event = field(default_factory=trio.Event)
    is_over: bool = False
    failure: Exception | None = None


class Readers:
    def __init__(self, shell: AppShell, source: Callable[[Any, str], SourceConnector], disk: Disk) -> None:
        self._shell = shell
        self._source = source
        self._disk = disk
        self._readings: dict[tuple[str, InstanceId], _Reading] = {}
        self._logs: dict[tuple[str, InstanceId], _Logged] = {}

    # -- what the node wants --

    def open(self, it: OpenSource) -> None:
        reading = self._readings[it.app, it.instance] = _Reading(it, heard_at=trio.current_time())
        self._shell.start_soon(self._read, reading)

    def close(self, it: CloseSources) -> None:
        for place in [place for place in self._readings if place[0] == it.app]:
            self._readings.pop(place).let_go()
        tenancy = self._shell.node.tenancies.get(it.app)
        if tenancy is None or tenancy.is_over:
            for place in [place for place in self._logs if place[0] == it.app]:
                self._logs.pop(place).is_over = True

    def sync(self, it: SyncSource) -> None:
        logged = self._logs.get((it.app, it.instance))
        if logged is None:
            self._synced(it)
        else:
            self._shell.start_soon(self._sync, logged, it)

    async def _sync(self, logged: _Logged, it: SyncSource) -> None:
        try:
            await trio.to_thread.run_sync(logged.log.sync, limiter=_UNLIMITED)
        except Exception as error:
            self._shell.carry(self._shell.node.fail(it.app, f"a source's log cannot be written: {error}", self._now()))
            return
        self._synced(it)

    def _synced(self, it: SyncSource) -> None:
        self._shell.carry(self._shell.node.synced(it.app, it.generation, it.instance, it.epoch, self._now()))

    def trim(self, it: TrimSource) -> None:
        logged = self._logs.get((it.app, it.instance))
        if logged is not None:
            self._shell.start_soon(self._trim, logged, it.offset)

    async def _trim(self, logged: _Logged, offset: int) -> None:
        def trim() -> None:
            with logged.lock:
                logged.log.trim(offset)

        await trio.to_thread.run_sync(trim, limiter=_UNLIMITED)

    def feed_wanted(self) -> None:
        """Hand on what was read, as far as the apps want it."""
        for reading in list(self._readings.values()):
            self._feed_wanted(reading)

    # -- one source --

    async def _read(self, reading: _Reading) -> None:
        it = reading.it
        try:
            with reading.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._mark_idle, reading)
                    await self._read_to_end(reading)
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            _, others = group.split(Exception)
            if others is not None:
                raise
            if not reading.is_over:
                sentence = f'source "{it.name}" failed: {next(_leaves(group))}'
                self._shell.carry(self._shell.node.fail(it.app, sentence, self._now()))
            return
        if not reading.is_over:
            reading.read.append((End(), 0, NO_STAMP))
            self._feed_wanted(reading)

    async def _read_to_end(self, reading: _Reading) -> None:
        it = reading.it
        tenancy = self._shell.node.tenancies[it.app]
        share, charter = tenancy.share, tenancy.charter
        assert share is not None and charter is not None
        flow = share.plan.stages[share.plan.sources[it.name]].nodes[0].draft.outputs[0]
        token = trio.lowlevel.current_trio_token()

        def take(message: Message | Letters, units: int) -> None:
            reading.room.acquire()
            if not reading.is_over:
                token.run_sync_soon(self._take, reading, message, units)

        connector = self._source(share.plan, it.name)
        if charter.record.guarantee is Guarantee.NONE or is_replayable(connector):
            await trio.to_thread.run_sync(
                _replay, connector, it, flow.schema, take, reading, abandon_on_cancel=True, limiter=_UNLIMITED
            )
            return
        logged = self._logs.get((it.app, it.instance))
        if logged is None:
            logged = self._logs[it.app, it.instance] = await trio.to_thread.run_sync(
                self._open_log, life_of(charter.record), it
            )
            self._shell.start_soon(self._fill, logged, connector, it, flow.schema)
        await self._from_log(reading, logged, flow.schema, take)

    def _open_log(self, life: str, it: OpenSource) -> _Logged:
        name = f"log-{life}-{it.instance.stage}-{it.instance.index}"
        return _Logged(SourceLog(self._disk, name, committed=it.offset))

    async def _fill(self, logged: _Logged, connector: SourceConnector, it: OpenSource, schema: pa.Schema) -> None:
        """From the connector into the log, as long as the app lives."""
        token = trio.lowlevel.current_trio_token()

        def told() -> None:
            event, logged.news = logged.news, trio.Event()
            event.set()

        def full(reason: str) -> None:
            self._shell.note(it.app, "source-waits", reason)

        def fill() -> None:
            for each in connector.read(schema):
                if logged.is_over:
                    return
                message = each if isinstance(each, Letters) else message_of(it.name, schema, each)
                if isinstance(message, Idle):
                    continue
                self._append(logged, message, lambda why: token.run_sync_soon(full, why))
                if getattr(connector, "acknowledges", False):
                    logged.log.sync()
                token.run_sync_soon(told)
            with logged.lock:
                logged.log.append(END, 0, b"")

        try:
            await trio.to_thread.run_sync(fill, abandon_on_cancel=True, limiter=_UNLIMITED)
        except Exception as error:
            logged.failure = error
        logged.is_over = True
        told()

    def _append(self, logged: _Logged, message: Message | Letters, full: Callable[[str], None]) -> None:
        kind, units, payload = _encode(message)
        has_told = False
        while not logged.is_over:
            try:
                with logged.lock:
                    logged.log.append(kind, units, payload)
                return
            except DiskFull as error:
                if not has_told:
                    has_told = True
                    full(str(error))
                time.sleep(FULL_S)

    async def _from_log(
        self, reading: _Reading, logged: _Logged, schema: pa.Schema, take: Callable[[Message | Letters, int], None]
    ) -> None:
        at = reading.it.offset
        while True:
            news = logged.news

            def load(start: int = at) -> list[Any]:
                with logged.lock:
                    return logged.log.read_from(start, bytes_max=LOG_READ_BYTES)

            entries = await trio.to_thread.run_sync(load, limiter=_UNLIMITED)
            fresh = [entry for entry in entries if entry.count or entry.kind == END]
            for entry in fresh:
                if entry.kind == END:
                    return
                message = _decode(entry, schema)
                units = entry.count - entry.skip
                await trio.to_thread.run_sync(take, message, units, abandon_on_cancel=True, limiter=_UNLIMITED)
                at = entry.start + entry.count
            if not fresh:
                if logged.failure is not None:
                    raise logged.failure
                await news.wait()

    def _take(self, reading: _Reading, message: Message | Letters, units: int) -> None:
        if not reading.is_over:
            reading.heard_at = trio.current_time()
            # Before it waits for room: that is part of its way.
            reading.read.append((message, units, stamp_of(time.time_ns() // 1_000_000)))
            self._feed_wanted(reading)

    async def _mark_idle(self, reading: _Reading) -> None:
        while True:
            due = reading.heard_at + IDLE_AFTER_S
            await trio.sleep_until(due)
            if reading.heard_at + IDLE_AFTER_S == due:
                reading.heard_at = trio.current_time()
                if not reading.read:
                    reading.read.append((Idle(), 0, NO_STAMP))
                    self._feed_wanted(reading, is_idle=True)

    def _feed_wanted(self, reading: _Reading, *, is_idle: bool = False) -> None:
        it, node = reading.it, self._shell.node
        while reading.read and not reading.is_over and node.wants(it.app, it.generation, it.instance):
            message, units, stamp = reading.read.popleft()
            if not isinstance(message, Idle | End):
                reading.room.release()
            self._shell.carry(node.feed(it.app, it.instance, message, units, self._now(), stamp=stamp))
        if is_idle and reading.read and isinstance(reading.read[0][0], Idle):
            reading.read.popleft()

    def _now(self) -> float:
        return trio.current_time()


def _replay(
    connector: SourceConnector,
    it: OpenSource,
    schema: pa.Schema,
    take: Callable[[Message | Letters, int], None],
    reading: _Reading,
) -> None:
    """On a thread of its own, which may outlive the generation."""
    for each in read_after(connector, schema, it.offset):
        message = each if isinstance(each, Letters) else message_of(it.name, schema, each)
        if reading.is_over:
            return
        take(message, _units(message))


def _units(message: Message | Letters) -> int:
    if isinstance(message, Letters):
        return len(message.letters)
    return message.batch.num_rows if isinstance(message, Data) else 0


def _encode(message: Message | Letters) -> tuple[int, int, Any]:
    if isinstance(message, Letters):
        return LETTERS, len(message.letters), msgpack.packb([list(letter) for letter in message.letters])
    assert isinstance(message, Data)
    return ROWS, message.batch.num_rows, memoryview(message.batch.serialize())


def _decode(entry: Any, schema: pa.Schema) -> Message | Letters:
    if entry.kind == LETTERS:
        letters = [tuple(letter) for letter in msgpack.unpackb(entry.payload)]
        return Letters(letters[entry.skip :])
    batch = pa.ipc.read_record_batch(pa.py_buffer(entry.payload), schema)
    return Data(batch.slice(entry.skip))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
