"""The apps of one peer: answers what other peers ask about them, and runs their shares.

Everybody may ask an admitted peer to host; it runs nothing that no operator has signed, for it opens the sealed bundle
by itself. All answers may be asked for twice. What is decided elsewhere (where instances go, whether a launch stands)
is decided in `dataflow.deploying.launch`; here is only this device: its room, its sources, its sinks.
"""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
import trio

from dataflow.bundles.importing import load_bundle
from dataflow.bundles.sealing import Verified, open_sealed, unpack_sealed
from dataflow.connectors.specs import parse_sink, parse_source
from dataflow.deploying.charter import Charter, unpack_charter
from dataflow.deploying.requests import (
    Agreed,
    Begin,
    Failed,
    Halt,
    Host,
    Inquire,
    Measure,
    Measured,
    ReadRows,
    Report,
    Reserve,
    Room,
    Routed,
    Rows,
    SendJoin,
    room_of,
    sentence_of,
)
from dataflow.engine.workers import with_bundle_workers
from dataflow.errors import AppError
from dataflow.hosting.assignment import InstanceId, sink_name
from dataflow.hosting.edge_frames import APP_TAG_BYTES, app_tag
from dataflow.hosting.effects import Refused
from dataflow.hosting.share import Share
from dataflow.placement.ledger import Granted, Ledger, Need
from dataflow.plan import Plan, make_plan
from overlay.contact import Contact
from overlay.frames import Buffer, Frame
from overlay.ids import PeerId, short
from overlay.routing import RouteResult
from overlay.wire import WireError
from peer.app_events import Events
from peer.app_facts import ending_of, facts_of
from peer.courier_trio import MARK, Answer, Courier, Refusal, Unanswered
from peer.kept_sink import KeptSink
from peer.measure import memory_for_apps_mib
from peer.runtime import Offered, Runtime
from peer.share_trio import ShareRunner
from peer.tenant import State, Tenant

ROWS_MARK: Final = b"="
"""The first byte of every frame between instances."""
SLOTS_PER_CORE: Final = 64
"""Instances that a core takes. They share threads and wait most of the time; memory is what bounds them."""
RESERVED_S_MAX: Final = 30.0
"""A reservation that nobody begins is given up: whoever led the launch is gone."""
OVER_MAX: Final = 64
"""Apps that are over and still remembered."""
TELL_S: Final = 5.0


class AppHost:
    def __init__(
        self, runtime: Runtime, *, sources: Mapping[str, str], sinks: Mapping[str, str], say: Callable[[str, str], None]
    ) -> None:
        self.runtime = runtime
        self.sources = dict(sources)
        self.sinks = dict(sinks)
        self.tenants: OrderedDict[str, Tenant] = OrderedDict()
        self._by_tag: dict[bytes, Tenant] = {}
        self._say = say
        self.events = Events(time.time)
        self.announce: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        """Called whenever an app here begins or is over, and waited for: who launched it may look for it at once."""
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._limiter = trio.CapacityLimiter(max(2, self._cores))
        self._nursery: trio.Nursery | None = None
        self.ledger = Ledger(
            slots=runtime.config.slots or SLOTS_PER_CORE * self._cores,
            memory_mib=runtime.config.memory_mib or memory_for_apps_mib(),
            hold_s=RESERVED_S_MAX,
        )
        self.courier = Courier(
            lambda: runtime.nodes[0].me,
            runtime.send_data,
            {
                SendJoin: self._send_join,
                Measure: self._measure,
                Reserve: self._reserve,
                Host: self._host,
                Begin: self._begin,
                Halt: self._halt,
                Failed: self._failed,
                Inquire: self._inquire,
                ReadRows: self._read_rows,
            },
            runtime.counters,
        )
        self.is_open_scheduler: Callable[[], bool] = lambda: False
        """Do we place apps of this zone? See scheduling.py."""
        runtime.on_data(self.take)
        runtime.offer_room(self._room)

    def _room(self) -> Offered:
        return Offered(self.ledger.slots, self.ledger.slots_used, self.memory_free_mib, self.is_open_scheduler())

    @property
    def memory_free_mib(self) -> int:
        return (self.ledger.memory_mib or 0) - self.ledger.memory_used_mib

    async def run(self) -> None:
        """Host until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self.courier.run)
            nursery.start_soon(self._forget_reservations)
            await trio.sleep_forever()

    def start_soon(self, task: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Run it beside the apps, until it returns or the peer ends."""
        assert self._nursery is not None
        self._nursery.start_soon(task, *arguments)

    def take(self, to: PeerId, sender: Contact, frame: Frame) -> None:
        """A DATA frame came in: a question, an answer, or rows."""
        content = frame.content
        mark = bytes(content[:1])
        try:
            if mark == MARK:
                self.courier.take(sender, frame)
            elif mark == ROWS_MARK:
                self._take_rows(sender, content[1:], frame.body)
            else:
                raise WireError("unknown-data", "neither a question nor rows")
        except WireError as error:
            self.runtime.counters[f"refused.{error.reason}"] += 1

    def _take_rows(self, sender: Contact, header: Buffer, body: Buffer) -> None:
        tenant = self._by_tag.get(bytes(header[:APP_TAG_BYTES]))
        if tenant is None or tenant.runner is None or tenant.is_over:
            raise WireError("no-such-app", "rows of an app that is not hosted here")
        tenant.runner.feed(sender.peer, header, body)

    # -- answers --

    async def _send_join(self, asker: Contact, it: SendJoin, body: Buffer) -> Answer:
        result = await self.runtime.route(it.key, it.app.encode(), kind="app-join")
        if not isinstance(result, RouteResult):
            raise Refusal("the JOIN found no way to the sink's key; look at `peer peers`")
        return Answer(Routed(it.ask, tuple(hop.contact for hop in result.hops)))

    async def _measure(self, asker: Contact, it: Measure, body: Buffer) -> Answer:
        return Answer(Measured(it.ask, tuple(self.rooms())))

    def rooms(self) -> list[Room]:
        """Our own room, then that of our leaves, as far as they told us."""
        node = self.runtime.nodes[0]
        self.runtime.report()
        known = [(node.me, node.vitals)]
        for leaf in node.leaves:
            vitals = node.prober.vitals_of(leaf.peer)
            if vitals is not None and leaf.peer not in node.view.suspects:
                known.append((leaf, vitals))
        return [
            room_of(
                contact,
                slots=vitals.slots,
                slots_used=vitals.slots_used,
                load=vitals.load,
                memory_free_mib=vitals.memory_free_mib,
            )
            for contact, vitals in known
        ]

    async def _reserve(self, asker: Contact, it: Reserve, body: Buffer) -> Answer:
        known = self.tenants.get(it.app)
        is_repeated = known is not None and (known.generation, known.state) == (it.generation, State.RESERVED)
        if known is not None and not (known.is_over or is_repeated or self._is_overtaken(known, it.generation)):
            raise Refusal(f'app "{known.name}" ({it.app[:8]}) is {known.state} here already')
        now = trio.current_time()
        granted = self.ledger.reserve(it.app, it.generation, Need(it.slots, it.memory_mib), now)
        if not isinstance(granted, Granted):
            raise Refusal(granted.lack)
        if known is not None and is_repeated:
            known.reserved_at = now
            return Answer(Agreed(it.ask))
        release = partial(self.ledger.release, it.app, it.generation, stop=True)
        tenant = Tenant(it.app, it.name, it.generation, it.slots, it.memory_mib, now, release)
        self.tenants[it.app] = self._by_tag[app_tag(it.app)] = tenant
        self.tenants.move_to_end(it.app)
        self._forget_old()
        self.events.add(it.app, "reserved", f"room for {it.slots} instances, as peer {short(asker.peer)} asked")
        return Answer(Agreed(it.ask))

    async def _host(self, asker: Contact, it: Host, body: Buffer) -> Answer:
        tenant = self._tenant(it.app, it.generation)
        if tenant.state is not State.RESERVED:
            return Answer(Agreed(it.ask))
        try:
            charter = unpack_charter(bytes(body))
            if (charter.assignment.app, charter.assignment.generation) != (it.app, it.generation):
                raise Refusal("the charter is for another app or generation")
            verified = open_sealed(unpack_sealed(charter.sealed), read=self.runtime.read_certificate, now=time.time())
            if verified.bundle.id != it.app:
                raise Refusal("the bundle is another than the one that room was kept for")
            app = await trio.to_thread.run_sync(load_bundle, verified)
            plan = make_plan(app.graph)
            await trio.to_thread.run_sync(self._build, tenant, charter, plan, verified)
        except (AppError, WireError, Refusal) as error:
            self.events.add(it.app, "refused", str(error))
            raise Refusal(str(error)) from None
        if tenant.is_over or self.tenants.get(it.app) is not tenant or not self._is_renewed(tenant):
            await trio.to_thread.run_sync(tenant.close_workers)
            raise Refusal("the app was halted, or lost its room, while it was being built")
        tenant.scheduler = asker
        tenant.state = State.READY
        self.events.add(it.app, "ready", f"generation {it.generation} is built; {verified.signer} signed the app")
        assert self._nursery is not None
        self._nursery.start_soon(self._run, tenant)
        return Answer(Agreed(it.ask))

    async def _begin(self, asker: Contact, it: Begin, body: Buffer) -> Answer:
        tenant = self._tenant(it.app, it.generation)
        if tenant.state is State.READY and tenant.runner is not None:
            started = self.ledger.start(it.app, it.generation, trio.current_time())
            if not isinstance(started, Granted):
                raise Refusal(started.lack)
            tenant.state = State.RUNNING
            self.events.add(it.app, "begun", "sources speak")
            await self.announce()
            tenant.runner.begin()
        elif tenant.state is State.RESERVED:
            raise Refusal("was asked to begin before it was ready")
        return Answer(Agreed(it.ask))

    async def _halt(self, asker: Contact, it: Halt, body: Buffer) -> Answer:
        tenant = self.tenants.get(it.app)
        if tenant is not None and tenant.generation == it.generation:
            if it.is_drained and tenant.runner is not None:
                self.events.add(it.app, "draining", "sources end, the rest goes on")
                tenant.runner.drain()
            elif tenant.state is State.RESERVED:
                self._forget(it.app)
            else:
                tenant.end(State.HALTED, it.reason)
        return Answer(Agreed(it.ask))

    async def _failed(self, asker: Contact, it: Failed, body: Buffer) -> Answer:
        tenant = self.tenants.get(it.app)
        if tenant is not None and tenant.generation == it.generation:
            tenant.end(State.FAILED, it.reason)
        return Answer(Agreed(it.ask))

    async def _inquire(self, asker: Contact, it: Inquire, body: Buffer) -> Answer:
        tenant = self.tenants.get(it.app)
        if tenant is None:
            raise Refusal("does not host that app")
        return Answer(Report(it.ask, json.dumps(self.facts(tenant))))

    async def _read_rows(self, asker: Contact, it: ReadRows, body: Buffer) -> Answer:
        tenant = self.tenants.get(it.app)
        sink = tenant.sinks.get(it.stream) if tenant is not None else None
        if tenant is None or sink is None:
            raise Refusal(f'does not keep stream "{it.stream}" of that app')
        position = -1 if it.from_now else it.position
        reading = await sink.read(it.reader, position, wait_s=it.wait_ms / 1000)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, sink.schema) as writer:
            for batch in reading.batches:
                writer.write_batch(batch)
        return Answer(Rows(it.ask, reading.first, reading.next, reading.is_ended), (buffer.getvalue(),))

    # -- one app --

    def _is_overtaken(self, tenant: Tenant, generation: int) -> bool:
        """Whoever led the launch of a share that has not begun was given up, and another leads it anew: make way."""
        if tenant.generation >= generation or tenant.state not in (State.RESERVED, State.READY):
            return False
        self._give_up(tenant, f"generation {generation} was launched before this one had begun")
        return True

    def _is_renewed(self, tenant: Tenant) -> bool:
        """Building took its time; the hold counts from now."""
        tenant.reserved_at = trio.current_time()
        need = Need(tenant.slots, tenant.memory_mib)
        return isinstance(self.ledger.reserve(tenant.app, tenant.generation, need, tenant.reserved_at), Granted)

    def _give_up(self, tenant: Tenant, reason: str) -> None:
        """A share that never began: nobody who has begun shall wait for it."""
        if tenant.state is State.RESERVED:
            self._forget(tenant.app)
            return
        tenant.end(State.FAILED, reason)
        assert self._nursery is not None
        self._nursery.start_soon(self._tell_failure, tenant)

    def _tenant(self, app: str, generation: int) -> Tenant:
        tenant = self.tenants.get(app)
        if tenant is None or tenant.generation != generation:
            raise Refusal("keeps no room for that app: the launch took too long, launch it again")
        if tenant.is_over:
            raise Refusal(f"the app is {tenant.state} here{': ' + tenant.reason if tenant.reason else ''}")
        return tenant

    def _build(self, tenant: Tenant, charter: Charter, plan: Plan, verified: Verified) -> None:
        """On a thread: starting worker processes takes a while. Python functions run in those, within limits."""
        me = self.runtime.nodes[0].me
        make, tenant.workers = with_bundle_workers(
            verified, on_print=lambda line: self.events.add(tenant.app, "printed", line)
        )
        try:
            share = Share(plan, charter.assignment, me.peer, boot_ms=me.boot_ms, make=make)
        except BaseException:
            tenant.close_workers()
            raise
        mine = charter.assignment.on(me.peer)
        names = {stage: name for name, stage in plan.sources.items()}
        sources = {(names[it.stage], it.index): self._source(plan, names[it.stage]) for it in mine if it.stage in names}
        tenant.sinks = {sink_name(plan, it): self._sink(plan, it) for it in mine if it.is_sink}

        async def send(peer: PeerId, header: bytes, body: Any) -> None:
            await self.runtime.send_data(charter.contact_of(peer), ROWS_MARK + header, body)

        def on_refused(effect: Refused) -> None:
            self.runtime.counters[f"refused.{effect.reason}"] += 1
            self.events.add(tenant.app, "refused", f"a frame of peer {short(effect.sender)}: {effect.reason}")

        tenant.runner = ShareRunner(
            share, send=send, sources=sources, sinks=tenant.sinks, limiter=self._limiter, on_refused=on_refused
        )
        tenant.charter, tenant.plan = charter, plan

    def _source(self, plan: Plan, name: str) -> Any:
        if name not in self.sources:
            raise Refusal(f'offers no source "{name}"; it offers {", ".join(sorted(self.sources)) or "none"}')
        reader = parse_source(self.sources[name])
        flow = plan.stages[plan.sources[name]].nodes[0].draft.outputs[0]
        if hasattr(reader, "bind"):
            reader.bind(name, flow.time.name if flow.time else None)
        return reader

    def _sink(self, plan: Plan, instance: InstanceId) -> KeptSink:
        name = sink_name(plan, instance)
        spec = self.sinks.get(name)
        return KeptSink(plan.schemas[name], parse_sink(spec) if spec else None)

    async def _run(self, tenant: Tenant) -> None:
        assert tenant.runner is not None
        self._say("hosting", f'app "{tenant.name}" ({tenant.app[:8]}), {tenant.slots} instances')
        with tenant.scope:
            await tenant.runner.run()
        if tenant.runner.failure is not None and not tenant.is_over:
            tenant.end(State.FAILED, tenant.runner.failure)
            await self._tell_failure(tenant)
        else:
            tenant.end(State.ENDED)
        with trio.CancelScope(shield=True), trio.move_on_after(TELL_S):
            for sink in tenant.sinks.values():
                await sink.close()
        await trio.to_thread.run_sync(tenant.close_workers)
        self.events.add(tenant.app, str(tenant.state), ending_of(tenant))
        await self.announce()
        self._say(
            "ended",
            f'app "{tenant.name}" ({tenant.app[:8]}) {tenant.state}{": " + tenant.reason if tenant.reason else ""}',
        )

    async def _tell_failure(self, tenant: Tenant) -> None:
        """It broke here: nobody shall wait for rows that never come."""
        assert tenant.charter is not None
        me = self.runtime.nodes[0].me
        reason = sentence_of(f"peer {short(me.peer)}: {tenant.reason}")

        async def tell(contact: Contact) -> None:
            request = Failed(self.courier.numbers(1), tenant.app, tenant.generation, reason)
            try:
                await self.courier.ask(contact, request, within_s=TELL_S)
            except Unanswered:
                self.runtime.counters["refused.failure-untold"] += 1

        async with trio.open_nursery() as nursery:
            for contact in tenant.charter.contacts:
                if contact.peer != me.peer:
                    nursery.start_soon(tell, contact)

    def facts(self, tenant: Tenant) -> dict[str, Any]:
        """Our share of an app, for a person."""
        node = self.runtime.nodes[0]
        return facts_of(tenant, node.me.peer, load=node.vitals.load)

    # -- forgetting --

    async def _forget_reservations(self) -> None:
        while True:
            await trio.sleep(RESERVED_S_MAX / 4)
            now = trio.current_time()
            for tenant in [*self.tenants.values()]:
                if tenant.state in (State.RESERVED, State.READY) and now - tenant.reserved_at > RESERVED_S_MAX:
                    self._give_up(tenant, "nobody told it to begin: whoever led the launch is gone. Launch it again")

    def _forget_old(self) -> None:
        over = [app for app, tenant in self.tenants.items() if tenant.is_over]
        for app in over[: max(0, len(over) - OVER_MAX)]:
            self._forget(app)

    def _forget(self, app: str) -> None:
        self.tenants.pop(app).release()
        del self._by_tag[app_tag(app)]
