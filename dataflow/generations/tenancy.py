"""One app on one host, through all its generations there.

    reserved    room is kept; nobody knows more than a name
    preparing   a charter came: build, fetch the state of the committed epoch, restore
    ready       all of that is done; nothing flows
    running     sources speak, epochs end
    ended       the last epoch is committed                     (good)
    halted      somebody stopped it, or it moved away           (good)
    failed      its own code broke it: `reason` says how

A charter of a later generation ends whatever is here, at any point, and prepares anew: buffers are dropped, sources
rewind, a sink drops what was not committed. One of an earlier generation is refused. So it does not matter in which
order charters come, or how often.

Whoever finds that a later generation exists (a frame of it, or a STALE) stops at once: nothing it still does counts.

Pure: what is slow is a `Do`, whose outcome is ignored if another generation has begun meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

from dataflow.connectors.protocol import Letters
from dataflow.dead_letters import dead_letters
from dataflow.deploying import requests
from dataflow.deploying.charter import Charter
from dataflow.deploying.requests import Agreed, Begin, Declined, Host, sentence_of
from dataflow.errors import AppError
from dataflow.generations.depositing import Custody
from dataflow.generations.effects import (
    Ask,
    Changed,
    CloseSources,
    Do,
    Effect,
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
from dataflow.generations.feed import Feed
from dataflow.generations.finished import FinishedStream
from dataflow.generations.life import life_of
from dataflow.generations.messages import Acknowledge, BeginEpoch, Commit, EpochBegun, Nudge, Over, pack_notes
from dataflow.generations.notes import Note, Part
from dataflow.generations.ports import Built, Ports
from dataflow.generations.promise import Guarantee
from dataflow.generations.record import Record
from dataflow.generations.residency import (
    Acknowledged,
    LetGo,
    Nudged,
    Residency,
    Resumed,
    Shown,
    Store,
    Sync,
    Trim,
)
from dataflow.hosting.assignment import InstanceId, sink_name
from dataflow.hosting.effects import Arrived, Failed, ReadRegister, Ready, Refused, SendFrame
from dataflow.hosting.share import Share
from dataflow.hosting.stamps import NO_STAMP
from dataflow.hosting.task import FINAL, OnEpoch, Task
from dataflow.messages import Data, End, Message
from dataflow.operators.base import SIDE
from dataflow.state.chain import PartName, SnapshotChain
from overlay.contact import Contact
from overlay.frames import Buffer
from overlay.ids import PeerId
from overlay.wire import WireError
from recovery.custody.retrieval import NotEnoughFragments

ACKNOWLEDGE_S: Final = 5.0


class State(StrEnum):
    RESERVED = "reserved"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"
    HALTED = "halted"
    FAILED = "failed"


OVER: Final = frozenset({State.ENDED, State.HALTED, State.FAILED})


@dataclass(slots=True)
class _Stay:
    """What belongs to one generation here; another one replaces it whole."""

    charter: Charter
    askers: list[tuple[Contact, int]] = field(default_factory=list)
    built: Built | None = None
    chains: dict[InstanceId, SnapshotChain] = field(default_factory=dict)
    parts: dict[InstanceId, list[bytes]] = field(default_factory=dict)
    fetching: set[InstanceId] = field(default_factory=set)
    residency: Residency | None = None
    keeper: Contact | None = None
    arrivals: dict[str, deque[Arrived]] = field(default_factory=dict)
    is_closed: bool = False


class Tenancy:
    def __init__(self, ports: Ports, app: str, name: str) -> None:
        self.app = app
        self.name = name
        self.generation = 0
        self.state = State.RESERVED
        self.reason = ""
        self.streams: dict[str, FinishedStream] = {}
        self._ports = ports
        self._stay: _Stay | None = None
        self._offsets: dict[InstanceId, int] = {}
        """How far sources were fed, in whichever generation: only `none` goes on from there."""

    # -- what can be seen --

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def charter(self) -> Charter | None:
        return self._stay.charter if self._stay else None

    @property
    def share(self) -> Share | None:
        return self._stay.built.share if self._stay and self._stay.built else None

    @property
    def residency(self) -> Residency | None:
        return self._stay.residency if self._stay else None

    # -- from the outside: charters, epochs, the end --

    def host(self, asker: Contact, it: Host, charter: Charter, now: float) -> list[Effect]:
        if it.generation < self.generation:
            return [Reply(asker, Declined(it.ask, f"generation {self.generation} of the app is here already"))]
        if it.generation == self.generation and self._stay is not None:
            if self.state in (State.READY, State.RUNNING):
                return [Reply(asker, Agreed(it.ask))]
            if self.state is State.PREPARING:
                self._stay.askers.append((asker, it.ask))
                return []
        if it.generation == self.generation and self.is_over:
            return [Reply(asker, Declined(it.ask, self._gone()))]
        out = self._leave()
        self.generation, self.state, self.reason = it.generation, State.PREPARING, ""
        self._stay = stay = _Stay(charter, [(asker, it.ask)])
        return [*out, Changed(self.app), self._build(stay)]

    def begin(self, asker: Contact, it: Begin, now: float) -> list[Effect]:
        stay = self._stay
        if it.generation != self.generation or stay is None or self.state not in (State.READY, State.RUNNING):
            return [Reply(asker, Declined(it.ask, self._gone()))]
        out: list[Effect] = [Reply(asker, Agreed(it.ask))]
        if self.state is State.READY:
            self.state = State.RUNNING
            out += [Changed(self.app), *self._open_sources(stay)]
        return out

    def begin_epoch(self, asker: Contact, it: BeginEpoch, now: float) -> list[Effect]:
        stay = self._current(it.generation)
        if stay is None or stay.residency is None or self.state is not State.RUNNING:
            return [Reply(asker, Declined(it.ask, self._gone()))]
        stay.keeper = asker
        told = stay.residency.begin_epoch(it.epoch, committed=it.committed, holds=it.holds)
        for instance in sorted(stay.residency.unstored_finals):
            chain = stay.chains.get(instance)
            taken = None if chain is None else chain.take(self.generation, FINAL)
            told += stay.residency.store_final_again(instance, taken)
        return [Reply(asker, EpochBegun(it.ask, stay.residency.begun)), *self._carry(stay, told, now)]

    def commit(self, asker: Contact, it: Commit, now: float) -> list[Effect]:
        stay = self._current(it.generation)
        out: list[Effect] = [Reply(asker, Agreed(it.ask))]
        if stay is None or stay.residency is None:
            return out
        out += self._carry(stay, stay.residency.commit(it.epoch), now)
        if it.is_last and not self.is_over:
            out += self._end(State.ENDED, "")
        return out

    def over(self, asker: Contact, it: Over, now: float) -> list[Effect]:
        """It has failed, or was ended: what is committed is shown, and the rest is dropped."""
        out: list[Effect] = [Reply(asker, Agreed(it.ask))]
        stay = self._current(it.generation)
        if stay is not None and stay.residency is not None:
            out += self._carry(stay, stay.residency.commit(it.epoch), now)
        if it.generation >= self.generation and not self.is_over:
            state = {"ended": State.ENDED, "halted": State.HALTED}.get(it.phase, State.FAILED)
            out += self._end(state, it.reason)
        return out

    def fail(self, sentence: str) -> list[Effect]:
        """A connector of this device broke: the app cannot go on."""
        stay = self._stay
        if stay is None or self.is_over:
            return []
        return self._failed(stay, Failed(self.app, sentence))

    def close_sources(self) -> list[Effect]:
        """Read no more. What was read goes on, but nothing has ended: open windows give no result."""
        return [CloseSources(self.app)]

    def halt(self, generation: int, reason: str) -> list[Effect]:
        """It has no part here any more: its streams, if there were any, go on elsewhere."""
        if generation < self.generation or self.is_over:
            return []
        out = self._end(State.HALTED, reason)
        self.streams = {}
        return out

    def drain(self, now: float) -> list[Effect]:
        """Sources end here and now; what is under way still reaches the sinks."""
        stay = self._stay
        if stay is None or stay.residency is None or self.state is not State.RUNNING:
            return []
        out: list[Effect] = [CloseSources(self.app)]
        for instance in stay.residency.feeds:
            out += self.feed(instance, End(), 0, now, is_forced=True)
        return out

    # -- the share: frames, steps, sources, sinks --

    def frame(self, sender: PeerId, header: Buffer, body: Buffer, now: float) -> list[Effect]:
        stay = self._stay
        if stay is None or stay.residency is None or self.is_over:
            return [Refusal(sender, "not-ready")]
        return self._carry(stay, stay.residency.absorb(stay.residency.share.feed(sender, header, body)), now)

    def reconnected(self, peer: PeerId, now: float) -> list[Effect]:
        stay = self._stay
        if stay is None or stay.residency is None or self.is_over:
            return []
        return self._carry(stay, stay.residency.share.reconnected(peer), now)

    def next_step(self) -> Task | None:
        stay = self._stay
        if stay is None or stay.residency is None or self.state not in (State.READY, State.RUNNING):
            return None
        return stay.residency.share.begin()

    def stepped(self, task: Task, now: float) -> list[Effect]:
        """A step has been run. If its generation is over, so is what came of it."""
        stay = self._stay
        if stay is None or stay.residency is None or not stay.residency.share.is_mine(task) or self.is_over:
            return []
        return self._carry(stay, stay.residency.absorb(stay.residency.share.finish(task)), now)

    def wants(self, generation: int, instance: InstanceId) -> bool:
        """May this source be fed?"""
        stay = self._current(generation)
        if stay is None or stay.residency is None or self.state is not State.RUNNING:
            return False
        feed = stay.residency.feeds[instance]
        share = stay.residency.share
        is_open = not feed.is_held and not feed.is_ended
        return is_open and share.wants(self._source_name(share, instance), instance.index)

    def feed(
        self,
        instance: InstanceId,
        message: Message | Letters,
        units: int,
        now: float,
        *,
        stamp: int = NO_STAMP,
        is_forced: bool = False,
    ) -> list[Effect]:
        """What a source read; only when it is wanted."""
        stay = self._stay
        assert stay is not None and stay.residency is not None
        residency, share = stay.residency, stay.residency.share
        if residency.feeds[instance].is_ended:
            return []
        name = self._source_name(share, instance)
        if isinstance(message, Letters):
            share.feed_side(name, SIDE, Data(dead_letters(message.letters)), instance.index)
        else:
            share.feed_source(name, message, instance.index, stamp=stamp, is_forced=is_forced)
        residency.feeds[instance].fed(units)
        self._offsets[instance] = residency.feeds[instance].offset
        return self._carry(stay, residency.ended(instance), now) if isinstance(message, End) else []

    def synced(self, generation: int, instance: InstanceId, epoch: int, now: float) -> list[Effect]:
        stay = self._current(generation)
        if stay is None or stay.residency is None:
            return []
        return self._carry(stay, stay.residency.synced(instance, epoch), now)

    def holder_lost(self, peer: PeerId, now: float) -> list[Effect]:
        """A peer is dead: what it held for us goes to somebody else, while the other fragments are still there."""
        stay = self._stay
        if stay is None or stay.residency is None or self.is_over:
            return []
        custody = self._custody(stay.charter.record)
        out: list[Effect] = []
        for instance, parts in stay.residency.kept.items():
            for part in parts:
                done = self._if_current(stay, partial(self._on_repaired, instance, part))
                out += custody.repair(str(instance), part, peer, done, now)
        return out

    def _on_repaired(self, instance: InstanceId, before: Part, stay: _Stay, after: Any, now: float) -> list[Effect]:
        if after is None or stay.residency is None:
            return []
        told = Noted(self.app, "repaired", f"a fragment of {instance}, epoch {before.epoch}, has another holder")
        return [told, *self._carry(stay, stay.residency.repaired(instance, before, after), now)]

    def take_arrivals(self, now: float) -> list[Effect]:
        """Let sinks take what waits in front of them, as far as they have room."""
        stay = self._stay
        if stay is None or stay.residency is None or self.is_over:
            return []
        out: list[Effect] = []
        for name, waiting in stay.arrivals.items():
            while waiting and (not isinstance(waiting[0].message, Data) or self.streams[name].has_room(now)):
                arrived = waiting.popleft()
                if arrived.stamp and isinstance(arrived.message, Data):
                    out.append(TakenIn(self.app, name, arrived.stamp, arrived.message.batch.num_rows))
                out += self._carry(stay, stay.residency.arrived(arrived), now)
        return out

    # -- how a generation comes to be --

    def _build(self, stay: _Stay) -> Effect:
        ports, charter = self._ports, stay.charter
        record = charter.record

        def on_epoch(instance: InstanceId, _: Any, epoch: int) -> Any:
            chain = stay.chains.get(instance)  # a sink has none: its state is its stream
            return None if chain is None else chain.take(record.generation, epoch)

        hook: OnEpoch | None = on_epoch if record.guarantee is not Guarantee.NONE else _take_nothing

        def work() -> Built:
            return ports.build(charter, hook)

        return Do(("build", self.app), work, self._if_current(stay, self._on_built))

    def _on_built(self, stay: _Stay, result: Any, now: float) -> list[Effect]:
        if isinstance(result, BaseException):
            return self._refuse(stay, result)
        stay.built = result
        share, record = result.share, stay.charter.record
        mine = share.assignment.on(self._ports.me.peer)
        stay.chains = {it: SnapshotChain(share.instance(it)) for it in mine if not it.is_sink}
        away = {it.stage for it in record.sources_away()}
        for it in mine:
            plan = share.plan
            reads = (plan.sinks[sink_name(plan, it)],) if it.is_sink else plan.stages[it.stage].inputs
            share.instance(it).is_short = any(edge.node in away for edge in reads)
        out: list[Effect] = []
        for it in mine:
            note = record.notes.get(it)
            if it.is_sink and self._reuse_stream(share, record, it, note):
                continue
            if note is not None and note.parts and record.guarantee is not Guarantee.NONE:
                stay.fetching.add(it)
        for it in sorted(stay.fetching):
            done = self._if_current(stay, partial(self._on_fetched, it))
            out += self._custody(record).fetch(str(it), record.notes[it].parts, record.epoch, done, now)
        return out if stay.fetching or out else self._restore(stay)

    def _reuse_stream(self, share: Share, record: Record, it: InstanceId, note: Note | None) -> bool:
        """The sink was here before: what it has shown need not be fetched."""
        stream = self.streams.get(sink_name(share.plan, it))
        end = note.end if note is not None and note.end is not None else 0
        if stream is None:
            return False
        stream.show(record.epoch)
        if stream.roll_back(end):
            return True
        del self.streams[sink_name(share.plan, it)]
        return False

    def _on_fetched(self, it: InstanceId, stay: _Stay, found: Any, now: float) -> list[Effect]:
        if isinstance(found, BaseException):
            return self._refuse(stay, found)
        stay.parts[it] = found
        stay.fetching.discard(it)
        return [] if stay.fetching else self._restore(stay)

    def _restore(self, stay: _Stay) -> list[Effect]:
        assert stay.built is not None
        share, record = stay.built.share, stay.charter.record

        def work() -> None:
            for it, parts in sorted(stay.parts.items()):
                if not it.is_sink:
                    names = [PartName(part.generation, part.epoch) for part in record.notes[it].parts]
                    stay.chains[it].restore(names, parts)

        def then(stay: _Stay, result: Any, now: float) -> list[Effect]:
            if isinstance(result, BaseException):
                return self._refuse(stay, result)
            try:
                return self._settle(stay, share, record, now)
            except AppError as error:
                return self._refuse(stay, error)

        return [Do(("build", self.app), work, self._if_current(stay, then))]

    def _settle(self, stay: _Stay, share: Share, record: Record, now: float) -> list[Effect]:
        """All state is there: the share may speak to its neighbours."""
        me = self._ports.me.peer
        share.mark_ended({it for it, note in record.notes.items() if note.is_final})
        feeds: dict[InstanceId, Feed] = {}
        for it in share.assignment.on(me):
            note = record.notes.get(it)
            if it.is_sink:
                self._settle_stream(stay, share, record, it)
            elif it.stage in share.plan.sources.values():
                offset = note.offset if note is not None and note.offset is not None else 0
                if record.guarantee is Guarantee.NONE:
                    offset = max(offset, self._offsets.get(it, 0))
                feeds[it] = Feed(offset, is_ended=note is not None and note.is_final)
        here = {sink_name(share.plan, it) for it in share.assignment.on(me) if it.is_sink}
        streams = {name: stream for name, stream in self.streams.items() if name in here}
        stay.arrivals = {name: deque() for name in here}
        stay.residency = Residency(share, record, feeds=feeds, streams=streams)
        stay.parts = {}
        self.state = State.READY
        replies: list[Effect] = [Reply(asker, Agreed(ask)) for asker, ask in stay.askers]
        stay.askers = []
        return [*replies, Changed(self.app), *self._carry(stay, share.start(), now)]

    def _settle_stream(self, stay: _Stay, share: Share, record: Record, it: InstanceId) -> None:
        name, note = sink_name(share.plan, it), record.notes.get(it)
        if name in self.streams:
            return
        stream = FinishedStream(share.plan.schemas[name], is_eager=record.guarantee is not Guarantee.EXACTLY_ONCE)
        if it in stay.parts and note is not None:
            stream.restore(stay.parts[it], end=note.end or 0)
            if note.is_final:
                stream.finish()
                stream.kept.end()
        self.streams[name] = stream

    def _open_sources(self, stay: _Stay) -> list[Effect]:
        assert stay.residency is not None
        share = stay.residency.share
        return [
            OpenSource(self.app, self.generation, it, self._source_name(share, it), feed.offset)
            for it, feed in stay.residency.feeds.items()
            if not feed.is_ended
        ]

    def _refuse(self, stay: _Stay, error: BaseException) -> list[Effect]:
        """This generation cannot run here; another may."""
        known = isinstance(error, AppError | WireError | NotEnoughFragments)
        reason = sentence_of(str(error) if known else f"{type(error).__name__}: {error}")
        replies: list[Effect] = [Reply(asker, Declined(ask, reason)) for asker, ask in stay.askers]
        stay.askers = []
        return [*replies, Noted(self.app, "refused", reason), *self._end(State.HALTED, reason)]

    # -- how it ends --

    def _end(self, state: State, reason: str) -> list[Effect]:
        self.state, self.reason = state, reason
        out: list[Effect] = []
        if state is not State.ENDED:
            for stream in self.streams.values():
                stream.kept.end()
        stay = self._stay
        out.append(CloseSources(self.app))
        if stay is not None and stay.built is not None and not stay.is_closed:
            stay.is_closed = True
            out.append(Do(("build", self.app), stay.built.close, lambda *_: []))
            if state is not State.ENDED:
                out += [WriteSink(self.app, name, [], True) for name in stay.arrivals]
        return [*out, Noted(self.app, str(state), reason), Changed(self.app)]

    def _leave(self) -> list[Effect]:
        """Another generation takes the place of this one."""
        stay, self._stay = self._stay, None
        out: list[Effect] = []
        if stay is not None:
            out += [Reply(asker, Declined(ask, "a later generation came")) for asker, ask in stay.askers]
            out.append(CloseSources(self.app))
            if stay.built is not None and not stay.is_closed:
                out.append(Do(("build", self.app), stay.built.close, lambda *_: []))
        return out

    # -- effects --

    def _carry(self, stay: _Stay, effects: Iterable[Any], now: float) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            out += self._one(stay, effect, now)
        return out

    def _one(self, stay: _Stay, effect: Any, now: float) -> list[Effect]:
        if isinstance(effect, SendFrame):
            record = stay.charter.record
            # A STALE may be for somebody who has no part in this generation any more.
            contact = record.contact_of(effect.peer) or self._ports.contact_of(effect.peer)
            return [] if contact is None else [SendRows(contact, effect.header, effect.body)]
        if isinstance(effect, Arrived):
            stay.arrivals[effect.sink].append(effect)
            return []
        if isinstance(effect, Store):
            return self._store(stay, effect)
        if isinstance(effect, Sync):
            return [SyncSource(self.app, self.generation, effect.instance, effect.epoch)]
        if isinstance(effect, Acknowledged):
            return self._acknowledge(stay, effect)
        if isinstance(effect, Nudged):
            return self._nudge(stay)
        if isinstance(effect, Shown):
            is_last = self.streams[effect.sink].kept.is_ended
            return [WriteSink(self.app, effect.sink, effect.batches, is_last)]
        if isinstance(effect, Trim):
            return [TrimSource(self.app, effect.instance, effect.offset)]
        if isinstance(effect, LetGo):
            return self._custody(stay.charter.record).let_go(str(effect.instance), effect.parts, effect.kept)
        if isinstance(effect, Refused):
            return [Refusal(effect.sender, effect.reason)]
        if isinstance(effect, Failed):
            return self._failed(stay, effect)
        if isinstance(effect, ReadRegister):
            return self._overtaken(effect.generation)
        assert isinstance(effect, Ready | Resumed), effect
        return [Changed(self.app)] if isinstance(effect, Resumed) else []

    def _store(self, stay: _Stay, it: Store) -> list[Effect]:
        def done(stay: _Stay, part: Any, now: float) -> list[Effect]:
            assert stay.residency is not None
            if part is not None:
                return self._carry(stay, stay.residency.stored(it.instance, it.epoch, part), now)
            if it.instance in stay.chains:
                stay.chains[it.instance].rebase()
            return self._carry(stay, stay.residency.unstored(it.instance, it.epoch), now)

        record = stay.charter.record
        custody = self._custody(record)
        return custody.store(str(it.instance), record.generation, it.epoch, it.encode, self._if_current(stay, done))

    def _acknowledge(self, stay: _Stay, it: Acknowledged) -> list[Effect]:
        if stay.keeper is None:
            return []
        request = Acknowledge(self._ports.errands.number(), self.app, self.generation, it.epoch)
        return [self._tell(stay.keeper, request, pack_notes(it.notes))]

    def _nudge(self, stay: _Stay) -> list[Effect]:
        if stay.keeper is None:
            return []
        return [self._tell(stay.keeper, Nudge(self._ports.errands.number(), self.app, self.generation))]

    def _tell(self, to: Contact, request: Any, body: bytes = b"") -> Effect:
        """Nobody waits for the answer: what is lost is said again at the next beat."""
        ask = Ask(to.peer, request, body, ACKNOWLEDGE_S, to)
        return self._ports.errands.put(ask, lambda *_: [], lambda *_: [])

    def _failed(self, stay: _Stay, it: Failed) -> list[Effect]:
        """The app's own code broke: nobody else will fare better."""
        out = self._end(State.FAILED, it.sentence)
        reason = sentence_of(it.sentence)
        for peer in stay.charter.record.members:
            contact = stay.charter.record.contact_of(peer)
            if contact is not None:
                request = requests.Failed(self._ports.errands.number(), self.app, self.generation, reason)
                out.append(self._tell(contact, request))
        return out

    def _overtaken(self, generation: int) -> list[Effect]:
        if generation <= self.generation or self.is_over:
            return []
        return [Noted(self.app, "overtaken", f"generation {generation} has begun"), *self._leave_for(generation)]

    def _leave_for(self, generation: int) -> list[Effect]:
        out = self._leave()
        self.state, self.reason = State.RESERVED, f"generation {generation} has begun elsewhere"
        return [*out, Changed(self.app)]

    # -- small things --

    def _custody(self, record: Record) -> Custody:
        ports = self._ports

        def contact_of(peer: PeerId) -> Contact | None:
            return record.contact_of(peer) or ports.contact_of(peer)

        return Custody(
            ports.errands, life_of(record), record.secret, ports.holder, ports.candidates, contact_of
        )

    def _current(self, generation: int) -> _Stay | None:
        return self._stay if generation == self.generation and not self.is_over else None

    def _if_current(
        self, stay: _Stay, then: Callable[[_Stay, Any, float], list[Effect]]
    ) -> Callable[[Any, float], list[Effect]]:
        """Hear it only while the generation that asked for it is here."""

        def guarded(result: Any, now: float) -> list[Effect]:
            if self._stay is stay and not self.is_over:
                return then(stay, result, now)
            if isinstance(result, Built):
                return [Do(("build", self.app), result.close, lambda *_: [])]
            return []

        return guarded

    def _gone(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"generation {self.generation} of the app is {self.state} here{why}"

    @staticmethod
    def _source_name(share: Share, instance: InstanceId) -> str:
        return next(name for name, stage in share.plan.sources.items() if stage == instance.stage)


def _take_nothing(instance: InstanceId, _: Any, epoch: int) -> Any:
    return None
