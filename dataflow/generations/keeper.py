"""Look after one app: one machine on each member of its register, of which the lowest live one leads.

    watching    others lead; ask those before us now and then whether they do
    reading     the register tells what stands
    hosting     every host of the generation is handed its charter, restores and gets ready
    beginning   all are ready: sources speak
    running     an epoch at a time: told to all, acknowledged by all, committed by one CAS, told again
    measuring   somebody is gone (or has come): who has room?
    moving      one CAS to generation + 1 with a new assignment; then hosting again
    over        the app has ended, or was ended

Leading is for speed. Two that lead at once harm nobody: a commit succeeds only in the generation of its
acknowledgements, a move only from the generation that it was planned in, and all that hosts are told may be told twice.
Whoever takes over hosts and begins the generation anew: those who run it already say so at once.

A host is taken for gone when it cannot be reached or says nothing for a while, when it says that it does not run
the generation it should, or when the overlay says that it is dead. A false alarm costs a rollback, never a row.

Pure: answers, decisions and time in; asks, proposals and timers out. `Propose` is answered by `decided` or `undecided`;
at most one is open at a time.
Rejected: a lease for the leader (clocks of devices that sleep); letting hosts elect (the register's members are there
anyway, and are the only ones who may decide).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from dataflow.deploying.charter import Charter
from dataflow.deploying.requests import Agreed, Begin, Declined, Halt, Host, Measure, Measured, Room, sentence_of
from dataflow.generations.messages import BeginEpoch, Commit, EpochBegun, Over, Watch
from dataflow.generations.notes import Note
from dataflow.generations.reassign import Move, reassign
from dataflow.generations.record import Phase, Record
from dataflow.hosting.assignment import InstanceId
from dataflow.placement.candidates import DoesNotFit
from overlay.contact import Contact
from overlay.ids import PeerId, short


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    beat_s: float = 1.0
    """How often hosts are asked, whether or not an epoch is due: also how quickly silence is noticed."""
    answer_s: float = 4.0
    """What a host may take to answer a beat. It answers at once, but a busy device may take seconds; one that is gone
    mostly says so at once, because its connections break."""
    misses_max: int = 2
    """Unanswered beats until a host counts as gone."""
    host_s: float = 60.0
    """What a host may take to restore and get ready."""
    watch_s: float = 1.5
    watch_misses_max: int = 3
    subsume_s: float = 15.0
    """An epoch that is not complete by then is overtaken by the next: one stuck holder shall not stop them all."""
    retry_s: float = 1.0
    """Pause after a failed read, or while nobody has room."""
    loss_retry_s: float = 5.0
    """Pause before a generation is hosted again that lacked fragments."""
    tell_over_s: float = 600.0
    """How long hosts that do not answer are told again that the app is over."""
    gone_s: float = 15.0
    """How long a host that was lost is passed over although it answers: it may be one that only we cannot rely on."""
    first_epoch_s: float = 0.2
    """The first epoch comes early: whoever launched the app waits for its first rows."""


@dataclass(frozen=True, slots=True)
class Ask:
    to: Contact
    request: Any
    body: bytes = b""
    within_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Propose:
    """Change the register's value: `change` gets the record that stands, and returns the next or None."""

    change: Callable[[Record], Record | None]


@dataclass(frozen=True, slots=True)
class Later:
    """Call `woken` at that time; once is enough, however often it is said."""

    at: float


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that a person may want to read: `peer logs`, metrics."""

    what: str
    detail: str


Effect = Ask | Propose | Later | Noted


class Stage(StrEnum):
    WATCHING = "watching"
    READING = "reading"
    HOSTING = "hosting"
    BEGINNING = "beginning"
    RUNNING = "running"
    MEASURING = "measuring"
    MOVING = "moving"
    OVER = "over"


@dataclass(slots=True)
class _Epoch:
    """The epoch that is under way."""

    number: int
    begun_at: float
    holds: bool = False
    notes: dict[PeerId, Mapping[InstanceId, Note]] = field(default_factory=dict)


DATA_LOSS: Final = "DATA_LOSS"
"""How a host begins its refusal if too few fragments of a snapshot are left."""
ROOM_ASKS_MAX: Final = 16
"""Peers that are asked for room; each also speaks for its leaf set."""


class Keeper:
    def __init__(
        self,
        me: PeerId,
        record: Record,
        sealed: bytes,
        *,
        number: Callable[[], int],
        settings: KeeperSettings | None = None,
    ) -> None:
        """`number` gives question numbers that nobody else on this peer uses."""
        self.me = me
        self.record = record
        self.stage = Stage.WATCHING
        self.is_leading = False
        self._sealed = sealed
        self._number = number
        self._settings = settings or KeeperSettings()
        self._open: dict[int, tuple[Contact, Any]] = {}
        self._waiting: set[int] = set()
        self._rooms: dict[PeerId, Room] = {}
        self._gone: dict[tuple[PeerId, int], float] = {}
        """Hosts that were lost, in which life, and until when they are passed over."""
        self._misses: dict[PeerId, int] = {}
        self._unwatched: dict[PeerId, int] = {}
        self._offers: dict[int, dict[PeerId, Contact]] = {}
        self._departing: set[PeerId] = set()
        self._epoch: _Epoch | None = None
        self._move: Move | None = None
        self._has_proposal = False
        self._is_nudged = False
        self._untold: dict[PeerId, Contact] = {}
        self._tell_until = 0.0
        self._wish: tuple[Phase, str] | None = None
        self._farewell: tuple[Phase, str] | None = None
        self._farewell_epoch = 0
        self._due = {"watch": 0.0, "beat": 0.0, "epoch": 0.0, "retry": 0.0}

    # -- what happens --

    def begin(self, now: float) -> list[Effect]:
        """The first member leads at once, the others watch."""
        if self._lower():
            self._due["watch"] = now + self._settings.watch_s
            return [Later(self._due["watch"])]
        return self._lead(now)

    def woken(self, now: float) -> list[Effect]:
        if self.stage is Stage.OVER:
            return self._tell_again(now)
        out: list[Effect] = []
        if self._lower() and now >= self._due["watch"]:
            out += self._watch(now)
        if self.is_leading:
            if self.stage is Stage.RUNNING:
                out += self._run(now)
            elif self.stage is Stage.MEASURING and not self._waiting and now >= self._due["retry"]:
                out += self._measure(now)
            elif self.stage is Stage.READING and not self._has_proposal and now >= self._due["retry"]:
                out += self._read(now)
        return [*out, *self._sleep(now)]

    def answered(self, ask: int, reply: Any, now: float) -> list[Effect]:
        question = self._open.pop(ask, None)
        if question is None:
            return []
        to, request = question
        self._waiting.discard(ask)
        if isinstance(request, Watch):
            return self._on_watched(to, isinstance(reply, Agreed), now)
        if not self.is_leading or getattr(request, "generation", self.record.generation) != self.record.generation:
            return []
        if isinstance(reply, Declined) and not isinstance(request, Measure | Commit | Halt | Over):
            if reply.reason.startswith(DATA_LOSS):
                return self._wait_for_holders(reply.reason, now)
            return self._lose(to, reply.reason, now)
        self._misses.pop(to.peer, None)
        if isinstance(request, Measure) and isinstance(reply, Measured):
            self._take_rooms(reply)
        if isinstance(request, BeginEpoch) and isinstance(reply, EpochBegun):
            return self._on_begun(reply.epoch, now)
        return self._proceed(now)

    def unanswered(self, ask: int, reason: str, now: float) -> list[Effect]:
        question = self._open.pop(ask, None)
        if question is None:
            return []
        to, request = question
        self._waiting.discard(ask)
        if isinstance(request, Watch):
            return self._on_watched(to, False, now)
        if self.stage is Stage.OVER:
            return self._untold_yet(to, now)
        if not self.is_leading or getattr(request, "generation", self.record.generation) != self.record.generation:
            return []
        if isinstance(request, BeginEpoch):
            self._misses[to.peer] = self._misses.get(to.peer, 0) + 1
            if self._misses[to.peer] < self._settings.misses_max:
                return []
        if isinstance(request, Measure | Commit | Halt | Over):
            return self._proceed(now)
        return self._lose(to, reason, now)

    def acknowledged(
        self, sender: PeerId, generation: int, epoch: int, notes: Mapping[InstanceId, Note], now: float
    ) -> tuple[str | None, list[Effect]]:
        """A host's part of an epoch. Why it is refused, if it is; and what to do."""
        if not self.is_leading or generation != self.record.generation:
            return f"generation {generation} is not led here", []
        if epoch <= self.record.epoch:
            return None, [self._ask(it, self._commit_of(it)) for it in self._hosts() if it.peer == sender]
        if set(notes) != set(self.record.assignment.on(sender)):
            return "the notes are not those of the instances assigned", []
        if self._epoch is None or epoch > self._epoch.number:
            self._epoch = _Epoch(epoch, now)
        if epoch == self._epoch.number:
            self._epoch.notes[sender] = notes
        return None, self._commit(now)

    def nudged(self, generation: int, now: float) -> list[Effect]:
        """A host would like an epoch at once."""
        if generation != self.record.generation or not self.is_leading:
            return []
        self._is_nudged = True
        return self.woken(now) if self.stage is Stage.RUNNING else []

    def confirmed_dead(self, contact: Contact, now: float) -> list[Effect]:
        """The overlay is sure."""
        if contact.peer in self.record.members:
            self._unwatched[contact.peer] = self._patience
        if self.is_leading and any(
            it.peer == contact.peer and it.boot_ms <= contact.boot_ms for it in self.record.assignment.places
        ):
            return self._lose(contact, "the overlay says that it is dead", now)
        return self._step_up(now)

    def offered(self, stage: int, contact: Contact, now: float) -> list[Effect]:
        """A device brings a source of ours, for the first time or back."""
        if not self.lacks(stage, contact):
            return []
        self._gone.pop((contact.peer, contact.boot_ms), None)  # it speaks: nobody else can read its source
        self._offers.setdefault(stage, {})[contact.peer] = contact
        return self._change_soon(now)

    def lacks(self, stage: int, contact: Contact) -> bool:
        """Does this life of a device not read that source for us yet?"""
        if contact.peer in self._departing:
            return False
        return not any(
            it.instance.stage == stage and it.peer == contact.peer and it.boot_ms >= contact.boot_ms
            for it in self.record.assignment.places
        )

    def departing(self, peer: PeerId, now: float) -> list[Effect]:
        """A host leaves on purpose: after the next epoch what it has goes elsewhere, and nothing is replayed."""
        if peer not in self.record.assignment.peers():
            return []
        self._departing.add(peer)
        return self._change_soon(now)

    def end(self, phase: Phase, reason: str, now: float, *, is_clean: bool = False) -> list[Effect]:
        """The app is to be over: halted by a person, failed by its own code. `is_clean`: behind one more epoch."""
        if is_clean and self.stage is Stage.RUNNING and self._wish is None and self._farewell is None:
            self._farewell = (phase, reason)
            self._is_nudged = True
            # An epoch that is under way may have begun before the last rows: only the one after it holds them all.
            self._farewell_epoch = (self._epoch.number if self._epoch is not None else self.record.epoch) + 1
            return self.woken(now)
        self._wish = self._wish or (phase, reason)
        return self._over_if_wished(now)

    def decided(self, record: Record, now: float) -> list[Effect]:
        """What we proposed stands. A read is decided too."""
        return self._on_record(record, now, is_ours=True)

    def refused(self, record: Record, now: float) -> list[Effect]:
        """Our change did not fit what stands: somebody else was quicker. Go on from there."""
        return self._on_record(record, now, is_ours=False)

    def _on_record(self, record: Record, now: float, *, is_ours: bool) -> list[Effect]:
        self._has_proposal = False
        before, self.record = self.record, record
        if record.phase is not Phase.RUNNING:
            return self._finish(now)
        if not self.is_leading:  # we stepped back meanwhile
            return []
        if self._wish is not None:
            return self._over_if_wished(now)
        is_same = record.generation == before.generation
        if self.stage is Stage.RUNNING and is_same:
            return self._on_committed(now)
        if self.stage is Stage.MEASURING and is_same:  # a commit that was under way when somebody was lost
            return [*self._tell_committed(), *self._proceed(now)]
        return [*(self._release(before) if is_ours else ()), *self._drive(now)]

    def adopt(self, record: Record) -> None:
        """The same generation, with other members of its register. (Of another, our next proposal will hear.)"""
        if record.generation == self.record.generation and record.epoch >= self.record.epoch:
            self.record = record

    def undecided(self, reason: str, now: float) -> list[Effect]:
        """No quorum of the register answers: nothing may be decided, so nothing is."""
        self._has_proposal = False
        self._due["retry"] = now + self._settings.retry_s
        if self.is_leading and self.stage not in (Stage.RUNNING, Stage.MEASURING):
            self.stage = Stage.READING
        return [Noted("no-quorum", reason), *self._sleep(now)]

    # -- leading and watching --

    def _lower(self) -> tuple[PeerId, ...]:
        members = self.record.members
        return members[: members.index(self.me)] if self.me in members else members

    def _watch(self, now: float) -> list[Effect]:
        self._due["watch"] = now + self._settings.watch_s
        asks = []
        for peer in self._lower():
            contact = self.record.contact_of(peer)
            if contact is not None:
                watch = Watch(self._number(), self.record.app, self.record.life)
                asks.append(self._put(contact, watch, within_s=self._settings.watch_s))
        return [*asks]

    def _on_watched(self, to: Contact, is_there: bool, now: float) -> list[Effect]:
        self._unwatched[to.peer] = 0 if is_there else self._unwatched.get(to.peer, 0) + 1
        if is_there and self.is_leading:
            return self._step_back(now, to)
        return self._step_up(now)

    @property
    def _patience(self) -> int:
        """Rounds without a leader below us, until we lead. One more for each place, so that one steps up, not all."""
        return self._settings.watch_misses_max + max(0, len(self._lower()) - 1)

    def _step_up(self, now: float) -> list[Effect]:
        if self.is_leading or self.stage is Stage.OVER:
            return []
        if any(self._unwatched.get(peer, 0) < self._patience for peer in self._lower()):
            return []
        return self._lead(now)

    def _lead(self, now: float) -> list[Effect]:
        self.is_leading = True
        return [Noted("leads", f"peer {short(self.me)} leads"), *self._read(now)]

    def _step_back(self, now: float, to: Contact) -> list[Effect]:
        self.is_leading = False
        self.stage = Stage.WATCHING
        self._epoch = None
        self._waiting.clear()
        return [Noted("follows", f"peer {short(to.peer)} leads again"), *self._sleep(now)]

    # -- driving a generation --

    def _read(self, now: float) -> list[Effect]:
        self.stage = Stage.READING
        if self._has_proposal:  # from before we stepped back; its outcome tells as much
            return []
        return self._propose(lambda record: record)

    def _drive(self, now: float) -> list[Effect]:
        """Host and begin what stands; those who run it already say so."""
        self.stage = Stage.HOSTING
        self._epoch = None
        self._misses.clear()
        self._waiting.clear()
        charter = Charter(self.record, self._sealed).pack()
        return self._round(
            (it, Host(self._number(), self.record.app, self.record.generation), charter) for it in self._hosts()
        ) or self._proceed(now)

    def _release(self, before: Record) -> list[Effect]:
        """Tell those who have no part in the generation any more."""
        left = set(before.assignment.peers()) - set(self.record.assignment.peers())
        contacts = [before.contact_of(peer) for peer in sorted(left)]
        halt = (self.record.app, before.generation, False, "its instances moved to other peers")
        return [self._ask(it, Halt(self._number(), *halt)) for it in contacts if it is not None]

    def _proceed(self, now: float) -> list[Effect]:
        if self._waiting:
            return []
        if self.stage is Stage.HOSTING:
            self.stage = Stage.BEGINNING
            record = self.record
            return self._round((it, Begin(self._number(), record.app, record.generation), b"") for it in self._hosts())
        if self.stage is Stage.BEGINNING:
            self.stage = Stage.RUNNING
            self._due["beat"] = self._due["epoch"] = now + self._settings.first_epoch_s
            return [Noted("runs", f"generation {self.record.generation} runs"), *self.woken(now)]
        if self.stage is Stage.MEASURING:
            return self._plan(now)
        return []

    # -- epochs --

    def _run(self, now: float) -> list[Effect]:
        if self._wants_change and (not self._has_sources or self._is_stuck(now)):
            return self._measure(now)  # no token will come: there is nothing to wait for
        is_due = now >= self._due["epoch"] or self._is_nudged
        if self._epoch is None and is_due:
            self._epoch = _Epoch(self.record.epoch + 1, now, holds=self._wants_change)
            self._is_nudged = False
            self._due["epoch"] = now + self.record.epoch_ms / 1000
            return self._announce(now)
        if self._is_stuck(now):
            assert self._epoch is not None
            self._epoch = _Epoch(self._epoch.number + 1, now)
            return [Noted("subsumed", f"epoch {self._epoch.number} overtakes"), *self._announce(now)]
        if now >= self._due["beat"]:
            return self._announce(now)
        return []

    def _is_stuck(self, now: float) -> bool:
        return self._epoch is not None and now >= self._epoch.begun_at + self._settings.subsume_s

    @property
    def _has_sources(self) -> bool:
        """Does any source speak in this generation? Only sources begin tokens."""
        homes = self.record.homes
        return not homes or any(it.instance in homes for it in self.record.assignment.places)

    def _announce(self, now: float) -> list[Effect]:
        """Also the beat by which silence is noticed; whoever has done the epoch acknowledges again."""
        self._due["beat"] = now + self._settings.beat_s
        record = self.record
        epoch, holds = (self._epoch.number, self._epoch.holds) if self._epoch is not None else (record.epoch, False)
        return [
            self._ask(it, BeginEpoch(self._number(), record.app, record.generation, epoch, record.epoch, holds))
            for it in self._hosts()
        ]

    def _on_begun(self, epoch: int, now: float) -> list[Effect]:
        if epoch <= (self._epoch.number if self._epoch is not None else self.record.epoch):
            return []
        self._epoch = _Epoch(epoch, now)  # another keeper was ahead of us
        return self._announce(now)

    def _commit(self, now: float) -> list[Effect]:
        epoch, record = self._epoch, self.record
        if epoch is None or self._has_proposal or self.stage is not Stage.RUNNING:
            return []
        if set(epoch.notes) != set(record.assignment.peers()):
            return []
        notes = {it: note for part in epoch.notes.values() for it, note in part.items()}
        number, generation = epoch.number, record.generation
        is_final = all(note.is_final for note in notes.values())

        def change(stands: Record) -> Record | None:
            if stands.generation != generation or stands.epoch >= number or stands.phase is not Phase.RUNNING:
                return None
            after = stands.committed(number, notes)
            return after.over(Phase.ENDED) if is_final and not after.has_sources_away else after

        return self._propose(change)

    def _on_committed(self, now: float) -> list[Effect]:
        held = False
        if self._epoch is not None and self._epoch.number <= self.record.epoch:
            held, self._epoch = self._epoch.holds, None
        out = self._tell_committed()
        if self._farewell is not None and self.record.epoch >= self._farewell_epoch:
            self._wish = self._wish or self._farewell
            return [*out, *self._over_if_wished(now)]
        self._is_nudged = self._is_nudged or self._farewell is not None
        return [*out, *(self._measure(now) if held else self.woken(now))]

    def _tell_committed(self) -> list[Effect]:
        return [self._ask(it, self._commit_of(it)) for it in self._hosts()]

    def _commit_of(self, host: Contact) -> Commit:
        record = self.record
        is_last = record.phase is Phase.ENDED
        return Commit(self._number(), record.app, record.generation, record.epoch, is_last)

    # -- another generation --

    def _lose(self, contact: Contact, reason: str, now: float) -> list[Effect]:
        """A host of this generation is gone: what it ran must run elsewhere."""
        place = next((it for it in self.record.assignment.places if it.peer == contact.peer), None)
        if place is None or self.stage in (Stage.MEASURING, Stage.MOVING, Stage.READING, Stage.OVER):
            if place is not None:
                self._gone[contact.peer, place.boot_ms] = now + self._settings.gone_s
            return self._proceed(now) if self.stage is Stage.MEASURING else []
        self._gone[contact.peer, place.boot_ms] = now + self._settings.gone_s
        told = Noted("lost", sentence_of(f"peer {short(contact.peer)} is gone: {reason}"))
        return [told, *self._measure(now)]

    @property
    def _wants_change(self) -> bool:
        return bool(self._offers) or not self._departing.isdisjoint(self.record.assignment.peers())

    def _change_soon(self, now: float) -> list[Effect]:
        """A planned change comes right after an epoch in which sources hold: then nothing is replayed."""
        self._is_nudged = True
        return self.woken(now) if self.is_leading and self.stage is Stage.RUNNING else []

    def _wait_for_holders(self, reason: str, now: float) -> list[Effect]:
        """Never an older state: holders that are away may come back with what they hold."""
        self.stage = Stage.READING
        self._waiting.clear()
        self._due["retry"] = now + self._settings.loss_retry_s
        return [Noted("data-loss", reason), *self._sleep(now)]

    def _measure(self, now: float) -> list[Effect]:
        self.stage = Stage.MEASURING
        self._epoch = None
        self._rooms = {}
        self._waiting.clear()
        self._due["retry"] = now + self._settings.retry_s
        offered = {it.peer: it for devices in self._offers.values() for it in devices.values()}
        known = {it.peer: it for it in self.record.contacts} | offered
        return self._round(
            ((known[peer], Measure(self._number()), b"") for peer in sorted(known)[:ROOM_ASKS_MAX]),
            within_s=self._settings.answer_s,
        ) or self._proceed(now)

    def _take_rooms(self, reply: Measured) -> None:
        """A peer's own word counts; a neighbour's only for somebody who did not speak."""
        own, *others = reply.rooms
        self._rooms[own.contact.peer] = own
        for room in others:
            self._rooms.setdefault(room.contact.peer, room)

    def _plan(self, now: float) -> list[Effect]:
        if self._has_proposal:  # a commit is under way: plan from what comes of it
            return []
        self._gone = {it: until for it, until in self._gone.items() if now < until}
        rooms = [
            room
            for room in self._rooms.values()
            if (room.contact.peer, room.contact.boot_ms) not in self._gone and room.contact.peer not in self._departing
        ]
        offers = {stage: list(devices.values()) for stage, devices in self._offers.items()}
        try:
            move = self._move = reassign(self.record, rooms, offers=offers)
        except DoesNotFit as error:
            told = Noted("no-room", str(error))
            if self._departing or self._offers:  # a wish, not a need: let it be
                self._departing, self._offers = set(), {}
                return [told, *self._measure(now)]
            return [told, *self._sleep(now)]
        before = self.record.generation
        self.stage = Stage.MOVING

        def change(stands: Record) -> Record | None:
            if stands.generation != before or stands.phase is not Phase.RUNNING:
                return None
            return stands.moved(move.assignment, move.contacts, move.homes)

        self._offers = {}
        notes = [Noted("moves", sentence_of(why)) for why in move.reasons]
        return [*notes, *self._propose(change)]

    # -- the end --

    def _over_if_wished(self, now: float) -> list[Effect]:
        if self._wish is None or not self.is_leading or self._has_proposal or self.stage is Stage.OVER:
            return []
        phase, reason = self._wish
        return self._propose(lambda stands: stands.over(phase, reason) if stands.phase is Phase.RUNNING else None)

    def _finish(self, now: float) -> list[Effect]:
        self.stage = Stage.OVER
        record = self.record
        self._tell_until = now + self._settings.tell_over_s
        told = Noted("over", f"{record.phase}{': ' + record.reason if record.reason else ''}")
        return [told, *self._tell_over(self._hosts())]

    def _tell_over(self, hosts: Iterable[Contact]) -> list[Effect]:
        record = self.record
        out: list[Effect] = []
        for host in hosts:
            if record.phase is Phase.ENDED:
                out.append(self._ask(host, self._commit_of(host)))
            else:
                reason = sentence_of(record.reason or "it was told to stop")
                told = Over(self._number(), record.app, record.generation, record.epoch, str(record.phase), reason)
                out.append(self._ask(host, told))
        return out

    def _untold_yet(self, to: Contact, now: float) -> list[Effect]:
        """A host has not heard of the end: its sink would hide the last rows for ever."""
        if now >= self._tell_until or to.peer not in self.record.assignment.peers():
            return []
        self._untold[to.peer] = to
        if len(self._untold) == 1:
            self._due["retry"] = now + self._settings.retry_s
        return [Later(self._due["retry"])]

    def _tell_again(self, now: float) -> list[Effect]:
        if not self._untold or now < self._due["retry"]:
            return []
        untold, self._untold = self._untold, {}
        return self._tell_over(untold.values())

    # -- what they share --

    def _hosts(self) -> list[Contact]:
        found = [self.record.contact_of(peer) for peer in self.record.assignment.peers()]
        return [it for it in found if it is not None]

    def _propose(self, change: Callable[[Record], Record | None]) -> list[Effect]:
        assert not self._has_proposal
        self._has_proposal = True
        return [Propose(change)]

    def _round(
        self, asks: Iterable[tuple[Contact, Any, bytes]], *, within_s: float | None = None
    ) -> list[Effect]:
        """Questions that are all waited for."""
        out: list[Effect] = []
        for to, request, body in asks:
            out.append(self._put(to, request, body, within_s=within_s or self._settings.host_s))
            self._waiting.add(request.ask)
        return out

    def _ask(self, to: Contact, request: Any) -> Ask:
        return self._put(to, request, within_s=self._settings.answer_s)

    def _put(self, to: Contact, request: Any, body: bytes = b"", *, within_s: float) -> Ask:
        self._open[request.ask] = (to, request)
        return Ask(to, request, body, within_s)

    def _sleep(self, now: float) -> list[Effect]:
        """The next moment at which something is due."""
        due = [self._due["watch"]] if self._lower() else []
        if self.is_leading and self.stage is Stage.RUNNING:
            due += [self._due["beat"]]
            due += [self._due["epoch"]] if self._epoch is None else [self._epoch.begun_at + self._settings.subsume_s]
        elif self.is_leading and self.stage in (Stage.MEASURING, Stage.READING):
            due += [self._due["retry"]]
        later = [at for at in due if at > now]
        return [Later(min(later))] if later else []
