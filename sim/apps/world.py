"""Seven peers in three zones, one app among them, and everybody who watches.

The launch is that of a quiet day: a register is founded on three peers of different zones, they are told to keep the
app, and the first of them hosts and begins it. What happens then is the swarm's.

The overlay is not simulated here (sim/world.py does): its word is. A peer that is down for some seconds is confirmed
dead to whoever keeps the app; one that has a source says so now and then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from dataflow.deploying.charter import Charter
from dataflow.deploying.requests import Room
from dataflow.generations.caretaker import pack_keep
from dataflow.generations.effects import Ask, Effect, Noted
from dataflow.generations.keeper import KeeperSettings
from dataflow.generations.life import life_of
from dataflow.generations.messages import Keep
from dataflow.generations.record import Phase, Record
from dataflow.hosting.assignment import InstanceId, Place, assigned, sink_instance
from overlay.contact import Contact
from overlay.frames import Buffer
from overlay.ids import Key, PeerId
from recovery.holders import Candidate
from recovery.register.config import Config
from recovery.register.membership import Founding
from recovery.register.proposer import Decided, Wait
from sim.apps.app import SOURCES, build, plan_of
from sim.apps.device import Device
from sim.apps.network import Network
from sim.apps.peer import AppPeer
from sim.checkers.records import Records
from sim.checkers.shown import Shown
from sim.disk import DiskFaults, SimDisk
from sim.heap import EventHeap
from sim.seeds import rng_of

APP: Final = "ab" * 32
DEATH_S: Final = 3.0
OFFER_S: Final = 2.0
MEMBERS: Final = 3


class AppWorld:
    def __init__(
        self,
        seed: int,
        *,
        peers: int = 7,
        zones: int = 3,
        rows_per_s: float = 12.0,
        epoch_ms: int = 500,
        settings: KeeperSettings | None = None,
        disk_faults: DiskFaults | None = None,
        keeps_trace: bool = False,
    ) -> None:
        self.seed = seed
        self.heap = EventHeap()
        self.settings = settings
        self.plan = plan_of(build())
        self.peers: dict[PeerId, AppPeer] = {}
        self.network = Network(self.heap, rng_of(seed, "network"), self.peers)
        self.struck: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.marks: Counter[str] = Counter()
        self.violations: list[str] = []
        self.trace: list[str] = []
        self.shown = Shown()
        self.records = Records()
        self.ran: set[int] = set()
        """Generations that came to run."""
        self._keeps_trace = keeps_trace
        self._epoch_ms = epoch_ms
        drawn = rng_of(seed, "ids")
        for at in range(peers):
            peer = PeerId(Key(drawn.getrandbits(160)))
            disk = SimDisk(rng_of(seed, "disk", at), disk_faults)
            self.peers[peer] = AppPeer(self, peer, f"zone-{at % zones}", f"p{at}", disk)
        self.all = list(self.peers.values())
        self.home_of = {name: self.all[at].peer for at, name in enumerate(SOURCES)}
        sources = self.plan.sources.items()
        schemas = {name: self.plan.stages[stage].nodes[0].draft.outputs[0].schema for name, stage in sources}
        self.devices = {
            name: Device(name, schemas[name], rng_of(seed, "device", name), rows_per_s=rows_per_s, starts_at=0.5)
            for name in SOURCES
        }
        for it in self.all:
            it.start(0.0)

    @property
    def now(self) -> float:
        return self.heap.now

    @property
    def record(self) -> Record:
        """The latest that anybody has seen in the register."""
        assert self.records.latest is not None
        return self.records.latest

    @property
    def is_over(self) -> bool:
        return self.records.latest is not None and self.records.latest.phase is not Phase.RUNNING

    # -- the launch --

    def launch(self) -> None:
        """Found the register, tell its members, and let the first of them go on."""
        launcher = self.all[-1]
        members = self._members()
        record = self._record(members)
        assert launcher.node is not None
        errands = launcher.node._ports.errands
        founding = Founding(
            life_of(record),
            [it.peer for it in members],
            launcher.peer,
            lambda _: record.pack(),
            next_ask=errands.number,
            rng=rng_of(self.seed, "founding"),
        )

        def done(step: Any, now: float) -> list[Effect]:
            assert not isinstance(step, Wait) and isinstance(step, Decided), step
            return self._keep(launcher, record, step.config)

        effects = errands.carry(
            _Voting(founding),
            founding.begin(),
            done,
            now=self.now,
            within_s=2.0,
            contact_of=self.contact_of,
            has_bodies=True,
        )
        launcher.carry(effects, self.now)
        self.heap.put(self.now + OFFER_S, self._offer, None)

    def _keep(self, launcher: AppPeer, record: Record, config: Config) -> list[Effect]:
        assert launcher.node is not None
        errands = launcher.node._ports.errands
        body = pack_keep(config, Charter(record, b"sealed"))
        self.records.see(record)
        return [
            errands.put(Ask(peer, Keep(errands.number(), APP, record.life), body), lambda *_: [], lambda *_: [])
            for peer in record.members
        ]

    def _members(self) -> list[AppPeer]:
        """One of each zone, from the end: sources are at the beginning, and one of them may be a member too."""
        by_zone: dict[str, AppPeer] = {}
        drawn = rng_of(self.seed, "members")
        for it in drawn.sample(self.all, len(self.all)):
            by_zone.setdefault(it.zone, it)
        return [by_zone[zone] for zone in sorted(by_zone)][:MEMBERS]

    def _record(self, members: list[AppPeer]) -> Record:
        plan, drawn = self.plan, rng_of(self.seed, "places")
        names = {stage: name for name, stage in plan.sources.items()}
        copies = {stage.id: 2 if any(node.kind == "aggregate" for node in stage.nodes) else 1 for stage in plan.stages}
        places = []
        for stage in plan.stages:
            for index in range(copies[stage.id]):
                at = self.peers[self.home_of[names[stage.id]]] if stage.id in names else drawn.choice(self.all)
                places.append(Place(InstanceId(stage.id, index), at.peer, at.contact.boot_ms))
        for name in plan.sinks:
            at = drawn.choice(self.all)
            places.append(Place(sink_instance(plan, name), at.peer, at.contact.boot_ms))
        assignment = assigned(APP, 1, places)
        wanted = {*assignment.peers(), *(it.peer for it in members)}
        return Record(
            name="chaos",
            life=1,
            assignment=assignment,
            contacts=tuple(self.peers[peer].contact for peer in sorted(wanted)),
            members=tuple(it.peer for it in members),
            secret=drawn.randbytes(32),
            epoch_ms=self._epoch_ms,
            homes={InstanceId(stage, 0): self.home_of[name] for name, stage in plan.sources.items()},
        )

    # -- what a peer asks of what is around it --

    def contact_of(self, peer: PeerId) -> Contact | None:
        found = self.peers.get(peer)
        return None if found is None else found.contact

    def candidates(self, asker: AppPeer) -> list[Candidate]:
        return [it.candidate() for it in self._seen_by(asker) if it is not asker]

    def rooms(self, asker: AppPeer) -> list[Room]:
        return [asker.room(), *(it.room() for it in self._seen_by(asker) if it is not asker)]

    def _seen_by(self, asker: AppPeer) -> Iterator[AppPeer]:
        for it in self.all:
            if it.is_up and (it.peer, asker.peer) not in self.network.blocked:
                yield it

    # -- the overlay's word --

    def on_crash(self, it: AppPeer) -> None:
        contact = it.contact
        self.heap.put(self.now + DEATH_S, self._confirm, contact)

    def _confirm(self, contact: Contact, now: float) -> None:
        it = self.peers[contact.peer]
        if it.is_up:
            return
        self.tell_death(contact, now)

    def tell_death(self, contact: Contact, now: float) -> None:
        for other in self.all:
            if other.node is not None and other.peer != contact.peer:
                other.act(other.life, partial(self._tell_death, other, contact), now)

    @staticmethod
    def _tell_death(other: AppPeer, contact: Contact, now: float) -> None:
        assert other.node is not None
        other.carry(other.node.confirmed_dead(contact, now), now)

    def _offer(self, _: None, now: float) -> None:
        """Devices say what they bring; whoever keeps the app hears it, if the way is open."""
        for name, home in self.home_of.items():
            device, stage = self.peers[home], self.plan.sources[name]
            for other in self.all:
                if not device.is_up or other.node is None or (home, other.peer) in self.network.blocked:
                    continue
                other.act(other.life, partial(self._tell_offer, other, stage, device.contact), now)
        self.heap.put(now + OFFER_S, self._offer, None)

    @staticmethod
    def _tell_offer(other: AppPeer, stage: int, contact: Contact, now: float) -> None:
        assert other.node is not None
        for caretaker in list(other.node.caretakers.values()):
            other.carry(caretaker.tell(lambda keeper: keeper.offered(stage, contact, now), now), now)

    # -- whoever watches --

    def look(self, it: AppPeer, now: float) -> None:
        """After anything has happened to a peer."""
        node = it.node
        if node is None:
            return
        for caretaker in node.caretakers.values():
            problem = self.records.look((it.peer, it.life), caretaker.record)
            if problem:
                self.violation(f"{it.name}: {problem}")
        tenancy = node.tenancies.get(APP)
        if tenancy is not None:
            for name, stream in tenancy.streams.items():
                end = self.records.ends.get(sink_instance(self.plan, name), 0)
                problem = self.shown.look(name, stream.kept, end)
                if problem:
                    self.violation(f"{it.name}: {problem}")

    def noted(self, it: AppPeer, effect: Noted) -> None:
        self.say(it, effect.what, effect.detail)
        if effect.what == "runs":
            self.ran.add(int(effect.detail.split()[1]))
        self.marks[f"note {effect.what}"] += 1

    def say(self, it: AppPeer, what: str, detail: str = "") -> None:
        if self._keeps_trace:
            self.trace.append(f"{self.now:9.3f} {it.name} {what} {detail}")

    def violation(self, sentence: str) -> None:
        line = f"{self.now:.3f} s: {sentence}"
        if self._keeps_trace:
            self.trace.append(f"VIOLATION {line}")
        if len(self.violations) < 20:
            self.violations.append(line)

    def run_for(self, seconds: float) -> None:
        self.heap.run_to(self.now + seconds)


class _Voting:
    """A proposal as errands know machines."""

    def __init__(self, proposal: Founding) -> None:
        self._proposal = proposal

    def answered(self, ask: int, reply: Any, body: Buffer) -> Any:
        return self._proposal.answered(ask, reply, body)

    def unanswered(self, ask: int, reason: str) -> Any:
        return self._proposal.unanswered(ask)
