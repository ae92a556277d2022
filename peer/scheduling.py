"""Schedulers among running peers: who leads the launch of an app, and who tends it afterwards.

A peer plays three parts here, each of them small:

    asked to launch     it claims a scheduler of its zone (scheduler_search.py), hands it the sealed bundle, and looks
                        every two seconds whether that one still lives. If not, the next is claimed; if nobody is left,
                        it leads the launch by itself: a lone peer must be able to launch
    scheduler           it leads launches (launching.py), at most fifty apps at a time. It counts an app for as long as
                        somebody tends to it: an app that nobody has asked for in `LEASE_S` is over, or its keeper is
    keeper of an app    it asks the app's scheduler every half minute to keep the app, and finds another if that one is
                        gone; the app itself does not notice

One bundle is launched by one scheduler at a time, in the order of asking: who comes second hears that it runs.
All choices are those of `dataflow.placement.scheduler` and `.search`.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

import trio

from dataflow.bundles.sealing import open_sealed, unpack_sealed
from dataflow.deploying.requests import Agreed, Declined
from dataflow.deploying.scheduling import Elsewhere, Schedule, Scheduled, Succeed, Tend
from dataflow.errors import AppError
from dataflow.placement.scheduler import Accepted, Full, NoScheduler, Scheduler
from overlay.contact import Contact
from overlay.effects import Confirmed, Departed
from overlay.frames import Buffer
from overlay.ids import PeerId, short
from overlay.wire import CONTACTS_MAX
from peer.app_host import AppHost
from peer.complaint import Complaint
from peer.courier_trio import Answer, Unanswered
from peer.launching import Launcher
from peer.scheduler_search import TEND_ANSWER_S_MAX, SchedulerSearch
from peer.tenant import State, Tenant

ATTEMPTS_MAX: Final = 3
"""Schedulers that may fall silent in the middle of one launch before we lead it by ourselves."""
HAND_OVER_S_MAX: Final = 60.0
"""What a launch may take that somebody else leads."""
WATCH_S: Final = 2.0
MISSES_MAX: Final = 2
"""Unanswered looks before a scheduler counts as gone. One may be lost with a broken connection."""
TEND_S: Final = 30.0
"""How often a keeper asks for its apps. Longer: a dead scheduler is missed later, which harms nobody."""
LEASE_S: Final = 100.0
"""How long an app counts that nobody asks for: three times `TEND_S` and a little."""


class Scheduling:
    def __init__(self, host: AppHost, launcher: Launcher) -> None:
        self._host = host
        self._launcher = launcher
        self._search = SchedulerSearch(host)
        self._made: Scheduler | None = None
        self._leases: dict[str, float] = {}
        """When an app that we schedule was last asked for."""
        self._turns: dict[str, trio.Lock] = {}
        self._gone: set[PeerId] = set()
        """Who died or left since we last looked after our apps."""
        self._look = trio.Event()
        self._nursery: trio.Nursery | None = None
        for kind, answer in ((Tend, self._tend), (Schedule, self._schedule), (Succeed, self._succeed)):
            host.courier.answer(kind, answer)
        host.is_open_scheduler = lambda: self._made is not None and self._made.is_open
        host.runtime.observe(self._observe)

    @property
    def _scheduler(self) -> Scheduler:
        """Made when first needed: our id is known once the peer runs."""
        if self._made is None:
            runtime = self._host.runtime
            self._made = Scheduler(runtime.nodes[0].me.peer, runtime.zone_digest)
        return self._made

    def status(self) -> dict[str, Any]:
        scheduler, zone = self._made, self._host.runtime.zone_digest().totals()
        return {
            "scheduler": scheduler is not None and scheduler.is_scheduler,
            "scheduled_apps": len(scheduler.apps) if scheduler else 0,
            "zone_peers": round(zone.peers),
            "zone_schedulers": [short(peer) for peer in zone.schedulers],
        }

    # -- asked to launch --

    async def launch(self, sealed: bytes, *, is_rehearsal: bool = False) -> dict[str, Any]:
        """Launch it through a scheduler of this zone; the facts, or a `Complaint`."""
        app = self._id_of(sealed)
        silent: set[PeerId] = set()
        while len(silent) < ATTEMPTS_MAX:
            scheduler = await self._search.claim(app, avoid=silent)
            if scheduler is None:
                break
            facts = await self._hand_over(scheduler, app, sealed, is_rehearsal=is_rehearsal, attempt=len(silent))
            if facts is not None:
                return facts | {"scheduler": short(scheduler.peer)}
            self._host.runtime.counters["scheduler.fell-silent"] += 1
            silent.add(scheduler.peer)
        facts = await self._launcher.launch(sealed, is_rehearsal=is_rehearsal, attempt=len(silent))
        return facts | {"scheduler": ""}

    def _id_of(self, sealed: bytes) -> str:
        """Checked here too: nobody else shall be bothered with what no operator signed."""
        try:
            read = self._host.runtime.read_certificate
            return open_sealed(unpack_sealed(sealed), read=read, now=time.time()).bundle.id
        except AppError as error:
            raise Complaint(str(error), "Mend it, then launch again.") from None

    async def _hand_over(
        self, to: Contact, app: str, sealed: bytes, *, is_rehearsal: bool, attempt: int
    ) -> dict[str, Any] | None:
        """What the scheduler made of it; None if it fell silent, and somebody else shall lead."""
        courier = self._host.courier
        request = Schedule(courier.numbers(1), app, attempt, is_rehearsal)
        answer: Answer | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, to, app, nursery.cancel_scope)
            try:
                answer = await courier.ask(to, request, sealed, within_s=HAND_OVER_S_MAX)
            except Unanswered:
                answer = None
            nursery.cancel_scope.cancel()
        if answer is not None and isinstance(answer.reply, Declined):
            raise Complaint(f"Scheduler {short(to.peer)}: {answer.reply.reason}.", "See `peer peers`, launch again.")
        return _read(answer) if answer is not None and isinstance(answer.reply, Scheduled) else None

    async def _watch(self, scheduler: Contact, app: str, scope: trio.CancelScope) -> None:
        """Cancel the wait for a scheduler that has gone, or has forgotten the app with its former life."""
        misses = 0
        while misses < MISSES_MAX:
            await trio.sleep(WATCH_S)
            answer = await self._search.tend(scheduler, app)
            misses = 0 if isinstance(answer, Accepted) else misses + 1
        scope.cancel()

    # -- scheduler --

    async def _tend(self, asker: Contact, it: Tend, body: Buffer) -> Answer:
        if it.is_over:
            self._let_go(it.app)
            return Answer(Agreed(it.ask))
        self._let_go_of_the_lost()
        is_new = it.app not in self._leases
        answer = self._scheduler.ask(it.app, elect=it.elect, avoid=it.avoid)
        match answer:
            case Accepted(successor):
                self._leases[it.app] = trio.current_time()
                if successor is not None and is_new and self._nursery is not None:
                    self._nursery.start_soon(self._name_successor, successor)
                self._host.runtime.report()
                return Answer(Agreed(it.ask))
            case Full(successor):
                contact = await self._host.runtime.contact_of(successor) if successor is not None else None
                return Answer(Elsewhere(it.ask, True, (contact,) if contact else ()))
            case NoScheduler():
                return Answer(Elsewhere(it.ask, False, ()))

    async def _schedule(self, asker: Contact, it: Schedule, body: Buffer) -> Answer:
        if it.app not in self._leases:
            return Answer(Elsewhere(it.ask, False, ()))
        turn = self._turns.setdefault(it.app, trio.Lock())
        try:
            async with turn:
                facts = await self._launcher.launch(bytes(body), is_rehearsal=it.is_rehearsal, attempt=it.attempt)
            is_launched = True
        except Complaint as complaint:
            facts, is_launched = {"complaint": complaint.message}, False
        finally:
            if not turn.statistics().tasks_waiting:
                self._turns.pop(it.app, None)
        if not is_launched or it.is_rehearsal:
            self._let_go(it.app)
        return Answer(Scheduled(it.ask, is_launched), (json.dumps(facts).encode(),))

    async def _succeed(self, asker: Contact, it: Succeed, body: Buffer) -> Answer:
        self._scheduler.elect(it.passed)
        self._host.runtime.report()
        return Answer(Agreed(it.ask))

    async def _name_successor(self, peer: PeerId) -> None:
        """We are full: gossip shall have an open scheduler to name before the next launch. If this fails, the next
        launcher elects one."""
        contact = await self._host.runtime.contact_of(peer)
        if contact is not None:
            courier = self._host.courier
            request = Succeed(courier.numbers(1), tuple(sorted(self._scheduler.passed)[:CONTACTS_MAX]))
            try:
                await courier.ask(contact, request, within_s=TEND_ANSWER_S_MAX)
            except Unanswered:
                self._host.runtime.counters["scheduler.successor-silent"] += 1

    def _let_go(self, app: str) -> None:
        if self._leases.pop(app, None) is not None:
            self._scheduler.ended(app)
            self._host.runtime.report()

    def _let_go_of_the_lost(self) -> None:
        oldest = trio.current_time() - LEASE_S
        for app in [app for app, tended_at in self._leases.items() if tended_at < oldest]:
            self._let_go(app)

    # -- keeper of an app --

    async def run(self) -> None:
        """Look after the apps that we keep, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            due_at = trio.current_time() + TEND_S
            while True:
                with trio.move_on_at(due_at):
                    await self._look.wait()
                self._look = trio.Event()
                is_due = trio.current_time() >= due_at
                if is_due:
                    due_at = trio.current_time() + TEND_S
                    self._let_go_of_the_lost()
                gone, self._gone = self._gone, set()
                async with trio.open_nursery() as nursery:
                    for tenant in self._kept():
                        nursery.start_soon(self._look_after, tenant, is_due, gone)

    def look_again(self) -> None:
        """An app of ours began or is over, or a peer is gone."""
        self._look.set()

    def _observe(self, me: PeerId, effect: Any) -> None:
        if isinstance(effect, Confirmed | Departed):
            peer = effect.contact.peer
            if any(it.scheduler is not None and it.scheduler.peer == peer for it in self._kept()):
                self._gone.add(peer)
                self.look_again()

    def _kept(self) -> list[Tenant]:
        me = self._host.runtime.nodes[0].me.peer
        return [it for it in self._host.tenants.values() if it.scheduler is not None and it.is_kept_by(me)]

    async def _look_after(self, tenant: Tenant, is_due: bool, gone: set[PeerId]) -> None:
        scheduler = tenant.scheduler
        if scheduler is None:
            return
        if tenant.is_over:
            tenant.scheduler = None
            await self._search.tend(scheduler, tenant.app, is_over=True)
        elif tenant.state is State.RUNNING and (is_due or scheduler.peer in gone):
            if scheduler.peer not in gone and isinstance(await self._search.tend(scheduler, tenant.app), Accepted):
                return
            found = await self._search.claim(tenant.app, avoid={scheduler.peer} if scheduler.peer in gone else ())
            if found is not None and not tenant.is_over:
                tenant.scheduler = found


def _read(answer: Answer) -> dict[str, Any] | None:
    """The facts that a scheduler sent; its complaint becomes ours; bytes that are neither count as silence."""
    assert isinstance(answer.reply, Scheduled)
    try:
        facts = json.loads(b"".join(bytes(part) for part in answer.body))
    except ValueError:
        return None
    if not isinstance(facts, dict):
        return None
    if not answer.reply.is_launched:
        fact, _, way_out = str(facts.get("complaint", "The launch failed.")).partition("\n")
        raise Complaint(fact, way_out)
    return facts
