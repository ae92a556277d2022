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
from dataflow.connectors.protocol import SinkConnector, SourceConnector
from dataflow.connectors.specs import parse_sink, parse_source
from dataflow.deploying.charter import Charter, unpack_charter
from dataflow.deploying.requests import (
    Agreed,
    Begin,
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
)
from dataflow.engine.workers import with_bundle_workers
from dataflow.errors import AppError
from dataflow.generations.ports import Built
from dataflow.hosting.share import Share
from dataflow.hosting.task import OnEpoch
from dataflow.placement.ledger import Granted, Ledger, Need
from dataflow.plan import Plan, make_plan
from overlay.contact import Contact
from overlay.frames import Buffer, Frame
from overlay.ids import PeerId, short
from overlay.routing import RouteResult
from overlay.wire import WireError
from peer.app_events import Events
from peer.app_facts import ending_of, facts_of
from peer.apps_trio import ROWS_MARK, AppShell
from peer.courier_trio import MARK, Answer, Courier, Refusal
from peer.measure import memory_for_apps_mib
from peer.runtime import Offered, Runtime
from peer.tenant import State, Tenant
from recovery.folder import Folder

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
                Inquire: self._inquire,
                ReadRows: self._read_rows,
            },
            runtime.counters,
        )
        self.shell = AppShell(
            runtime,
            self.courier,
            disk=Folder(runtime.config.data_dir / "state"),
            limiter=self._limiter,
            build=self._build,
            plan_of=self._plan_of,
            source=self._source,
            sink=self._sink,
            on_changed=self._on_changed,
            on_noted=self._on_noted,
        )
        self.is_open_scheduler: Callable[[], bool] = lambda: False
        """Do we place apps of this zone? See scheduling.py."""
        runtime.before_leaving = self._depart
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
            await nursery.start(self.shell.run)
            nursery.start_soon(self._forget_reservations)
            await trio.sleep_forever()

    async def _depart(self) -> None:
        if self.shell.is_running:
            await self.shell.depart()

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
                self.shell.frame(sender.peer, content[1:], frame.body)
            else:
                raise WireError("unknown-data", "neither a question nor rows")
        except WireError as error:
            self.runtime.counters[f"refused.{error.reason}"] += 1

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
        tenant = self._admit(it.app, it.name, it.generation, Need(it.slots, it.memory_mib), is_new=not is_repeated)
        if not is_repeated:
            self.events.add(it.app, "reserved", f"room for {tenant.slots} instances, as peer {short(asker.peer)} asked")
        return Answer(Agreed(it.ask))

    async def _host(self, asker: Contact, it: Host, body: Buffer) -> Answer:
        """Of a launch, or of a later generation that its keeper moved here: then room is found now or never."""
        known = self.tenants.get(it.app)
        if known is None or it.generation > known.generation or known.is_over:
            try:
                charter = unpack_charter(body)
            except WireError as error:
                raise Refusal(str(error)) from None
            if known is None and charter.record.life == it.generation:
                raise Refusal("keeps no room for that app: the launch took too long, launch it again")
            need = Need(len(charter.assignment.on(self.runtime.nodes[0].me.peer)))
            is_new = known is None or (known.is_over and charter.record.life == it.generation)
            known = self._admit(it.app, charter.record.name, it.generation, need, is_new=is_new)
        known.reserved_at = trio.current_time()
        answer = await self.shell.answer(asker, it, body)
        if isinstance(answer.reply, Agreed) and known.scheduler is None:
            known.scheduler = asker
        return answer

    def _admit(self, app: str, name: str, generation: int, need: Need, *, is_new: bool) -> Tenant:
        now = trio.current_time()
        granted = self.ledger.reserve(app, generation, need, now)
        if not isinstance(granted, Granted):
            raise Refusal(granted.lack)
        known = self.tenants.get(app)
        if known is not None and not is_new:
            known.reserved, known.reserved_at, known.has_ended = generation, now, False
            known.slots = need.slots
            return known
        if known is not None:
            self._forget(app)
            self.ledger.reserve(app, generation, need, now)
        release = partial(self._release, app)
        tenant = Tenant(self.shell.node.reserve(app, name), generation, need.slots, need.memory_mib, now, release)
        self.tenants[app] = tenant
        self._forget_old()
        return tenant

    def _release(self, app: str) -> None:
        tenant = self.tenants.get(app)
        if tenant is not None:
            self.ledger.release(app, tenant.generation, stop=True)

    async def _begin(self, asker: Contact, it: Begin, body: Buffer) -> Answer:
        started = self.ledger.start(it.app, it.generation, trio.current_time())
        if not isinstance(started, Granted):
            raise Refusal(started.lack)
        answer = await self.shell.answer(asker, it, body)
        tenant = self.tenants.get(it.app)
        if tenant is not None and tenant.charter is not None and tenant.charter.record.life == it.generation:
            await self.announce()  # whoever launched it looks for it at once; later generations are not waited for
        return answer

    async def _halt(self, asker: Contact, it: Halt, body: Buffer) -> Answer:
        tenant = self.tenants.get(it.app)
        if tenant is not None and tenant.state is State.RESERVED and tenant.generation == it.generation:
            self._forget(it.app)
            return Answer(Agreed(it.ask))
        if it.is_drained:
            self.events.add(it.app, "draining", "sources end, the rest goes on")
        return await self.shell.answer(asker, it, body)

    async def _inquire(self, asker: Contact, it: Inquire, body: Buffer) -> Answer:
        tenant = self.tenants.get(it.app)
        if tenant is None:
            raise Refusal("does not host that app")
        return Answer(Report(it.ask, json.dumps(self.facts(tenant))))

    async def _read_rows(self, asker: Contact, it: ReadRows, body: Buffer) -> Answer:
        tenant = self.tenants.get(it.app)
        stream = tenant.streams.get(it.stream) if tenant is not None else None
        if stream is None:
            raise Refusal(f'does not keep stream "{it.stream}" of that app')
        position = -1 if it.from_now else it.position
        reading = await self.shell.read(it.app, it.stream, it.reader, position, wait_s=it.wait_ms / 1000)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, stream.schema) as writer:
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

    def _give_up(self, tenant: Tenant, reason: str) -> None:
        """A share that never began: nobody who has begun shall wait for it."""
        if tenant.state is State.RESERVED:
            self._forget(tenant.app)
        else:
            self.shell.carry(tenant.tenancy.halt(tenant.generation, reason))

    def _build(self, charter: Charter, on_epoch: OnEpoch | None) -> Built:
        """On a thread: starting worker processes takes a while. Python functions run in those, within limits."""
        me = self.runtime.nodes[0].me
        verified = self._verified(charter)
        plan = make_plan(load_bundle(verified).graph)
        mine = charter.assignment.on(me.peer)
        for name, stage in plan.sources.items():
            if any(it.stage == stage for it in mine) and name not in self.sources:
                offered = ", ".join(sorted(self.sources)) or "none"
                raise AppError(f'this peer offers no source "{name}"; it offers {offered}')
        app = charter.record.app
        make, workers = with_bundle_workers(verified, on_print=lambda line: self.events.add(app, "printed", line))

        def close() -> None:
            for worker in workers:
                worker.close()

        try:
            share = Share(plan, charter.assignment, me.peer, boot_ms=me.boot_ms, make=make, on_epoch=on_epoch)
        except BaseException:
            close()
            raise
        told = f"generation {charter.record.generation} is built; {verified.signer} signed the app"
        self.events.add(app, "built", told)
        return Built(share, close)

    def _verified(self, charter: Charter) -> Verified:
        verified = open_sealed(unpack_sealed(charter.sealed), read=self.runtime.read_certificate, now=time.time())
        if verified.bundle.id != charter.record.app:
            raise AppError("the bundle is another than the one that room was kept for")
        return verified

    def _plan_of(self, charter: Charter) -> Plan:
        return make_plan(load_bundle(self._verified(charter)).graph)

    def _source(self, plan: Plan, name: str) -> SourceConnector:
        reader: SourceConnector = parse_source(self.sources[name])
        flow = plan.stages[plan.sources[name]].nodes[0].draft.outputs[0]
        if hasattr(reader, "bind"):
            reader.bind(name, flow.time.name if flow.time else None)
        return reader

    def _sink(self, name: str) -> SinkConnector | None:
        spec = self.sinks.get(name)
        return parse_sink(spec) if spec else None

    def _on_changed(self, app: str) -> None:
        """Tell the world, once the effects that came with it are carried out."""
        tenant = self.tenants.get(app)
        if tenant is not None and not tenant.is_over and tenant.told != (tenant.generation, tenant.state):
            tenant.told = (tenant.generation, tenant.state)
            self.events.add(app, str(tenant.state), f"generation {tenant.generation}, {tenant.slots} instances here")
        if self._nursery is not None:
            self._nursery.start_soon(self._tell_change, app)

    async def _tell_change(self, app: str) -> None:
        tenant = self.tenants.get(app)
        if tenant is None:
            return
        if tenant.is_over and not tenant.has_ended:
            tenant.has_ended = True
            tenant.release()
            self.events.add(app, "over", ending_of(tenant))
            why = f": {tenant.reason}" if tenant.reason else ""
            self._say("ended", f'app "{tenant.name}" ({app[:8]}) {tenant.state}{why}')
        elif tenant.state is State.READY:
            self._say("hosting", f'app "{tenant.name}" ({app[:8]}), {tenant.slots} instances')
        await self.announce()

    def _on_noted(self, app: str, what: str, detail: str) -> None:
        """In the log too: a register member that hosts nothing is not asked for events, and a dead peer tells none."""
        self.events.add(app, what, detail)
        self._say(f"app-{what}", f"app {app[:8]}: {detail}")

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
        self.tenants[app].release()
        del self.tenants[app]
        self.shell.node.forget(app)
