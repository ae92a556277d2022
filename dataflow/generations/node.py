"""All apps of one peer: as their host, as a member of their registers, and as a holder of their fragments.

Questions come in and find their app; answers find whoever asked; frames find their share. Nothing here decides: the
machines are Tenancy (a host's side), Caretaker and its Keeper (a register member's), Registers and Holder (disks).

    asked, answered, unanswered   questions and answers        next_step, stepped   the work itself
    frame, reconnected            rows between peers           wants, feed, synced  what sources read
    confirmed_dead                the overlay's word           woken                time has come

Pure: shells (peer/apps_trio.py, sim/) carry out the effects.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from dataflow.connectors.protocol import Letters
from dataflow.deploying.charter import Charter, unpack_charter
from dataflow.deploying.requests import Agreed, Begin, Declined, Failed, Halt, Host
from dataflow.generations.caretaker import PREFIX, Caretaker, read_keep, unpack_keep
from dataflow.generations.effects import Do, Effect, Later, Refusal, Reply
from dataflow.generations.keeper import KeeperSettings
from dataflow.generations.messages import Acknowledge, BeginEpoch, Commit, Depart, Finish, Keep, Nudge, Over, Watch
from dataflow.generations.ports import Ports
from dataflow.generations.record import Phase
from dataflow.generations.tenancy import Tenancy
from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.edge_frames import APP_TAG_BYTES, app_tag
from dataflow.hosting.stamps import NO_STAMP
from dataflow.hosting.task import Task
from dataflow.messages import Message
from overlay.contact import Contact
from overlay.frames import Buffer
from overlay.ids import PeerId
from overlay.wire import WireError
from recovery.custody import messages as custody
from recovery.custody.holder import Answer, Delete, Holder, Load, Store
from recovery.disk import DiskError
from recovery.register import messages as register
from recovery.register.store import Registers

ARRIVALS_S: Final = 0.5
"""How often a full sink looks whether a silent reader has expired."""


class AppNode:
    def __init__(
        self,
        ports: Ports,
        *,
        registers: Registers,
        holder: Holder,
        rng: Random,
        settings: KeeperSettings | None = None,
    ) -> None:
        self.tenancies: dict[str, Tenancy] = {}
        self.caretakers: dict[str, Caretaker] = {}
        self.holder = holder
        self._ports = ports
        self._registers = registers
        self._rng = rng
        self._settings = settings
        self._by_tag: dict[bytes, str] = {}
        self._turn = 0
        self._answers: dict[type, Callable[[Contact, Any, Buffer, float], list[Effect]]] = {
            Host: self._host,
            Begin: self._begin,
            Halt: self._halt,
            Failed: self._failed,
            BeginEpoch: self._begin_epoch,
            Commit: self._commit,
            Acknowledge: self._acknowledge,
            Nudge: self._nudge,
            Keep: self._keep,
            Watch: self._watch,
            Depart: self._depart,
            Finish: self._finish,
            Over: self._over,
            register.Enlist: self._vote,
            register.Prepare: self._vote,
            register.Accept: self._vote,
            custody.PutFragment: self._hold,
            custody.GetFragment: self._hold,
            custody.DropFragments: self._hold,
            custody.ListFragments: self._hold,
        }

    @property
    def questions(self) -> tuple[type, ...]:
        """What may be asked here."""
        return tuple(self._answers)

    def start(self, now: float) -> list[Effect]:
        """After a restart: look after what we were told to keep."""
        disk = self._ports.disk

        def work() -> list[bytes | None]:
            return [disk.get(name) for name in disk.names(PREFIX)]

        def then(found: Any, at: float) -> list[Effect]:
            out: list[Effect] = []
            for raw in found if isinstance(found, list) else ():
                kept = read_keep(raw)
                if kept is not None and kept[1].record.app not in self.caretakers:
                    config, charter = kept
                    caretaker = Caretaker(self._ports, charter, config, self._rng, self._settings)
                    self.caretakers[charter.record.app] = caretaker
                    out += caretaker.begin(at)
            return out

        return [Do(("charters",), work, then), Later(now + ARRIVALS_S)]

    # -- what happens --

    def asked(self, sender: Contact, request: Any, body: Buffer, now: float) -> list[Effect]:
        return self._answers[type(request)](sender, request, body, now)

    def answered(self, ask: int, reply: Any, body: Buffer, now: float) -> list[Effect]:
        return self._ports.errands.answered(ask, reply, body, now)

    def unanswered(self, ask: int, reason: str, now: float) -> list[Effect]:
        return self._ports.errands.unanswered(ask, reason, now)

    def frame(self, sender: PeerId, header: Buffer, body: Buffer, now: float) -> list[Effect]:
        tenancy = self.tenancies.get(self._by_tag.get(bytes(header[:APP_TAG_BYTES]), ""))
        if tenancy is None:
            return [Refusal(sender, "no-such-app")]
        return [*tenancy.frame(sender, header, body, now), *tenancy.take_arrivals(now)]

    def reconnected(self, peer: PeerId, now: float) -> list[Effect]:
        return [effect for it in self.tenancies.values() for effect in it.reconnected(peer, now)]

    def woken(self, now: float) -> list[Effect]:
        out: list[Effect] = []
        for caretaker in list(self.caretakers.values()):
            out += caretaker.woken(now)
        for tenancy in self.tenancies.values():
            out += tenancy.take_arrivals(now)
        if any(not it.is_over for it in self.tenancies.values()):
            out.append(Later(now + ARRIVALS_S))
        return out

    def next_step(self) -> tuple[str, Task] | None:
        """A step of some app; each app has its turn."""
        apps = list(self.tenancies)
        for at in range(len(apps)):
            app = apps[(self._turn + at) % len(apps)]
            task = self.tenancies[app].next_step()
            if task is not None:
                self._turn = (self._turn + at + 1) % len(apps)
                return app, task
        return None

    def stepped(self, app: str, task: Task, now: float) -> list[Effect]:
        tenancy = self.tenancies.get(app)
        return [] if tenancy is None else [*tenancy.stepped(task, now), *tenancy.take_arrivals(now)]

    def wants(self, app: str, generation: int, instance: InstanceId) -> bool:
        tenancy = self.tenancies.get(app)
        return tenancy is not None and tenancy.wants(generation, instance)

    def feed(
        self,
        app: str,
        instance: InstanceId,
        message: Message | Letters,
        units: int,
        now: float,
        *,
        stamp: int = NO_STAMP,
    ) -> list[Effect]:
        return self.tenancies[app].feed(instance, message, units, now, stamp=stamp)

    def fail(self, app: str, sentence: str, now: float) -> list[Effect]:
        """A connector of this device broke."""
        tenancy = self.tenancies.get(app)
        return [] if tenancy is None else tenancy.fail(sentence)

    def synced(self, app: str, generation: int, instance: InstanceId, epoch: int, now: float) -> list[Effect]:
        tenancy = self.tenancies.get(app)
        return [] if tenancy is None else tenancy.synced(generation, instance, epoch, now)

    def confirmed_dead(self, contact: Contact, now: float) -> list[Effect]:
        out: list[Effect] = []
        for caretaker in list(self.caretakers.values()):
            out += caretaker.tell(lambda keeper: keeper.confirmed_dead(contact, now), now)
        for tenancy in self.tenancies.values():
            out += tenancy.holder_lost(contact.peer, now)
        return out

    def reserve(self, app: str, name: str) -> Tenancy:
        """Room is kept for an app."""
        tenancy = self.tenancies.get(app)
        if tenancy is None:
            tenancy = self.tenancies[app] = Tenancy(self._ports, app, name)
            self._by_tag[app_tag(app)] = app
        return tenancy

    def forget(self, app: str) -> None:
        self.tenancies.pop(app, None)
        self._by_tag.pop(app_tag(app), None)

    # -- hosting --

    def _host(self, asker: Contact, it: Host, body: Buffer, now: float) -> list[Effect]:
        try:
            charter = self._charter(it, body)
        except WireError as error:
            return [Reply(asker, Declined(it.ask, str(error)))]
        return self.reserve(it.app, charter.record.name).host(asker, it, charter, now)

    def _charter(self, it: Host, body: Buffer) -> Charter:
        charter = unpack_charter(body)
        if (charter.record.app, charter.record.generation) != (it.app, it.generation):
            raise WireError("other-charter", "the charter is for another app or generation")
        me = self._ports.me
        for place in charter.assignment.places:
            if place.peer == me.peer and place.boot_ms != me.boot_ms:
                raise WireError("other-boot", "the charter is meant for an earlier run of this peer")
        return charter

    def _begin(self, asker: Contact, it: Begin, body: Buffer, now: float) -> list[Effect]:
        return self._on_tenancy(asker, it, lambda tenancy: tenancy.begin(asker, it, now))

    def _begin_epoch(self, asker: Contact, it: BeginEpoch, body: Buffer, now: float) -> list[Effect]:
        def begin(tenancy: Tenancy) -> list[Effect]:
            return [*tenancy.begin_epoch(asker, it, now), *tenancy.take_arrivals(now)]

        return self._on_tenancy(asker, it, begin)

    def _commit(self, asker: Contact, it: Commit, body: Buffer, now: float) -> list[Effect]:
        def commit(tenancy: Tenancy) -> list[Effect]:
            return [*tenancy.commit(asker, it, now), *tenancy.take_arrivals(now)]

        return self._on_tenancy(asker, it, commit)

    def _halt(self, asker: Contact, it: Halt, body: Buffer, now: float) -> list[Effect]:
        out: list[Effect] = [Reply(asker, Agreed(it.ask))]
        tenancy = self.tenancies.get(it.app)
        if tenancy is not None:
            out += tenancy.drain(now) if it.is_drained else tenancy.halt(it.generation, it.reason)
        return out

    def _over(self, asker: Contact, it: Over, body: Buffer, now: float) -> list[Effect]:
        return self._on_tenancy(asker, it, lambda tenancy: tenancy.over(asker, it, now))

    def _on_tenancy(self, asker: Contact, it: Any, then: Callable[[Tenancy], list[Effect]]) -> list[Effect]:
        tenancy = self.tenancies.get(it.app)
        if tenancy is None:
            return [Reply(asker, Declined(it.ask, "does not host that app"))]
        return then(tenancy)

    # -- keeping --

    def _keep(self, asker: Contact, it: Keep, body: Buffer, now: float) -> list[Effect]:
        try:
            config, charter = unpack_keep(body)
        except WireError as error:
            return [Reply(asker, Declined(it.ask, str(error)))]
        known = self.caretakers.get(it.app)
        if known is not None and (known.life > it.life or (known.life == it.life and not known.is_over)):
            return [Reply(asker, Agreed(it.ask))]
        caretaker = self.caretakers[it.app] = Caretaker(self._ports, charter, config, self._rng, self._settings)
        return caretaker.kept(asker, it, now)

    def _watch(self, asker: Contact, it: Watch, body: Buffer, now: float) -> list[Effect]:
        return self._on_caretaker(asker, it, lambda caretaker: caretaker.watched(asker, it))

    def _acknowledge(self, asker: Contact, it: Acknowledge, body: Buffer, now: float) -> list[Effect]:
        return self._on_caretaker(asker, it, lambda caretaker: caretaker.acknowledged(asker, it, body, now))

    def _nudge(self, asker: Contact, it: Nudge, body: Buffer, now: float) -> list[Effect]:
        return self._on_caretaker(asker, it, lambda caretaker: caretaker.nudged(asker, it, now))

    def _failed(self, asker: Contact, it: Failed, body: Buffer, now: float) -> list[Effect]:
        def fail(caretaker: Caretaker) -> list[Effect]:
            told = caretaker.tell(lambda keeper: keeper.end(Phase.FAILED, it.reason, now), now)
            return [Reply(asker, Agreed(it.ask)), *told]

        return self._on_caretaker(asker, it, fail)

    def _depart(self, asker: Contact, it: Depart, body: Buffer, now: float) -> list[Effect]:
        def depart(caretaker: Caretaker) -> list[Effect]:
            if not caretaker.keeper.is_leading:
                return [Reply(asker, Declined(it.ask, "does not lead that app"))]
            told = caretaker.tell(lambda keeper: keeper.departing(asker.peer, now), now)
            return [Reply(asker, Agreed(it.ask)), *told]

        return self._on_caretaker(asker, it, depart)

    def _finish(self, asker: Contact, it: Finish, body: Buffer, now: float) -> list[Effect]:
        def finish(caretaker: Caretaker) -> list[Effect]:
            if not caretaker.keeper.is_leading:
                return [Reply(asker, Declined(it.ask, "does not lead that app"))]
            told = caretaker.tell(
                lambda keeper: keeper.end(Phase.HALTED, it.reason, now, is_clean=it.is_clean), now
            )
            return [Reply(asker, Agreed(it.ask)), *told]

        return self._on_caretaker(asker, it, finish)

    def _on_caretaker(self, asker: Contact, it: Any, then: Callable[[Caretaker], list[Effect]]) -> list[Effect]:
        caretaker = self.caretakers.get(it.app)
        if caretaker is None:
            return [Reply(asker, Declined(it.ask, "is no member of that app's register"))]
        return then(caretaker)

    # -- disks --

    def _vote(self, asker: Contact, it: Any, body: Buffer, now: float) -> list[Effect]:
        def work() -> Any:
            return self._registers.answer(it, body)

        def then(result: Any, at: float) -> list[Effect]:
            if isinstance(result, BaseException):
                return []  # a disk that does not write: whoever asks counts us as silent
            reply, content = result
            return [Reply(asker, reply, content)]

        return [Do(("register", it.app), work, then)]

    def _hold(self, asker: Contact, it: Any, body: Buffer, now: float) -> list[Effect]:
        step = self.holder.answer(it, body)
        if isinstance(step, Answer):
            return [Reply(asker, step.reply, step.body)]
        disk = self._ports.disk

        def work() -> bytes | None:
            if isinstance(step, Store):
                disk.put(step.name, step.data)
            elif isinstance(step, Load):
                return disk.get(step.name)
            else:
                for name in step.names:
                    disk.delete(name)
            return None

        def then(result: Any, at: float) -> list[Effect]:
            problem = None
            if isinstance(result, BaseException):
                problem, result = DiskError(str(result)), None
            if isinstance(step, Store):
                answer = self.holder.stored(step, problem)
            elif isinstance(step, Load):
                answer = self.holder.loaded(step, result, problem)
            else:
                answer = self.holder.deleted(step)
            return [Reply(asker, answer.reply, answer.body)]

        # Names hash to a few queues: one fragment's operations keep their order, and many fragments do not wait.
        first = step.names[0] if isinstance(step, Delete) and step.names else getattr(step, "name", "")
        return [Do(("fragment", sum(first.encode()) % 4), work, then)]
