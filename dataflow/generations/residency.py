"""One host's share of one generation, with its epochs: what is snapshotted, stored, acknowledged, shown and let go.

    begin_epoch   tokens go into the sources here; sinks await theirs
    absorb        what the share did: a snapshot was taken, a sink got rows or its token
    stored        a part is in enough hands                              } when all instances here have all of theirs,
    synced        a source's log is on disk as far as its token          } the epoch is acknowledged
    commit        the epoch stands: sinks show, sources trim, old parts are let go

Whatever the share wants besides (frames, refusals) passes through. Under `none` nothing is stored and nothing waits:
the epochs then only tell the keeper that we live, and when all has ended.

Promises: an epoch is acknowledged only when every part of it is stored and every source synced; nothing is shown before
its commit unless the app asked for that; all of it may be told twice. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dataflow.generations.checkpoint import Checkpoint
from dataflow.generations.feed import Feed
from dataflow.generations.finished import FinishedStream
from dataflow.generations.links import Links
from dataflow.generations.notes import Note, Part
from dataflow.generations.promise import Guarantee
from dataflow.generations.record import Record
from dataflow.hosting.assignment import InstanceId, sink_instance
from dataflow.hosting.effects import Arrived, Snapshotted
from dataflow.hosting.effects import Effect as ShareEffect
from dataflow.hosting.share import Share
from dataflow.hosting.task import FINAL
from dataflow.messages import Data, End, Token
from dataflow.state.chain import Taken


@dataclass(frozen=True, slots=True)
class Store:
    """Put what `encode` gives into enough hands, then say `stored`. It may be called on any thread, and takes time."""

    instance: InstanceId
    epoch: int
    encode: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Sync:
    """Bring the log of a source to disk, then say `synced`."""

    instance: InstanceId
    epoch: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """All of ours is stored: tell the keeper."""

    epoch: int
    notes: Mapping[InstanceId, Note]


@dataclass(frozen=True, slots=True)
class Nudged:
    """An epoch would help now."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows that readers may see from now on, and a connector may write."""

    sink: str
    batches: list[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Trim:
    """Nobody will read a source below this offset again."""

    instance: InstanceId
    offset: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """Parts of an instance that nobody will ask for again."""

    instance: InstanceId
    parts: list[Part]
    kept: list[Part]


@dataclass(frozen=True, slots=True)
class Resumed:
    """Sources that held their breath may go on."""


Effect = ShareEffect | Store | Sync | Acknowledged | Nudged | Shown | Trim | LetGo | Resumed


class Residency:
    def __init__(
        self,
        share: Share,
        record: Record,
        *,
        feeds: Mapping[InstanceId, Feed],
        streams: Mapping[str, FinishedStream],
    ) -> None:
        """`feeds` and `streams`: of the sources and sinks here. The share is restored already."""
        self.share = share
        self.record = record
        self.begun = record.epoch
        self.committed = record.epoch
        self.is_over = False
        """Is the end of everything here committed?"""
        self.feeds = dict(feeds)
        self.streams = dict(streams)
        mine = share.assignment.on(share.me)
        self._sinks = {sink_instance(share.plan, name): name for name in self.streams}
        self._names = {stage: name for name, stage in share.plan.sources.items()}
        self._checkpoint = Checkpoint(mine)
        self._links = {it: Links(record.notes[it].parts if it in record.notes else ()) for it in mine}
        self._unsynced: dict[InstanceId, set[int]] = {it: set() for it in self.feeds}
        self._ends: dict[InstanceId, dict[int, int]] = {it: {} for it in self._sinks}
        self._is_nudged = False
        self.unstored_finals: set[InstanceId] = set()
        """What has ended here and found no hands: there will be no later snapshot, so it is to be stored again."""
        for it in mine:
            note = record.notes.get(it)
            if note is not None and note.is_final:
                self._checkpoint.final(it, note)

    @property
    def keeps_state(self) -> bool:
        return self.record.guarantee is not Guarantee.NONE

    # -- what happens --

    def begin_epoch(self, epoch: int, *, committed: int, holds: bool = False) -> list[Effect]:
        """The keeper ends an epoch, or only asks whether we live. What is done already is acknowledged again."""
        out = self.commit(committed)
        if epoch > self.begun:
            self.begun = epoch
            self._is_nudged = False
            self._checkpoint.begun(epoch)
            for stream in self.streams.values():
                stream.await_token(epoch)
            for instance, feed in self.feeds.items():
                if not feed.is_ended:
                    feed.token(epoch)
                    feed.is_held = holds
                    if self.keeps_state:
                        self._unsynced[instance].add(epoch)
                        out.append(Sync(instance, epoch))
                    self.share.feed_token(self._names[instance.stage], epoch, instance.index)
        elif not holds and any(feed.is_held for feed in self.feeds.values()):
            for feed in self.feeds.values():
                feed.is_held = False
            out.append(Resumed())
        return [*out, *self._acknowledge()]

    def absorb(self, effects: Iterable[ShareEffect]) -> list[Effect]:
        """What came of a step or a frame."""
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Snapshotted):
                out += self._snapshotted(effect)
            else:
                out.append(effect)
        return out

    def arrived(self, effect: Arrived) -> list[Effect]:
        """A sink deals with what came, when there is room: see `FinishedStream.has_room`."""
        stream, message = self.streams[effect.sink], effect.message
        instance = sink_instance(self.share.plan, effect.sink)
        self.share.taken(effect.sink)
        if isinstance(message, Data):
            stream.take(message.batch)
            shown: list[Effect] = [Shown(effect.sink, [message.batch])] if stream.is_eager else []
            return [*shown, *(self._nudge() if stream.wants_epoch else [])]
        if isinstance(message, End):
            stream.finish()
            return [*self._closed(instance, stream, FINAL), *self._nudge()]
        return self._closed(instance, stream, message.epoch) if isinstance(message, Token) else []

    def ended(self, instance: InstanceId) -> list[Effect]:
        """A source was fed its end."""
        self.feeds[instance].is_ended = True
        self.feeds[instance].token(FINAL)
        if not self.keeps_state:
            return []
        self._unsynced[instance].add(FINAL)
        return [Sync(instance, FINAL)]

    def stored(self, instance: InstanceId, epoch: int, part: Part) -> list[Effect]:
        self._links[instance].stored(epoch, part)
        return self._note(instance)

    def unstored(self, instance: InstanceId, epoch: int) -> list[Effect]:
        """The snapshot found no hands. Its epoch will never be whole; the next one is, if it does not build on it."""
        self._links[instance].lost(epoch)
        if instance in self._sinks:
            self.streams[self._sinks[instance]].rebase()
        if epoch == FINAL:
            self.unstored_finals.add(instance)
        return []

    def store_final_again(self, instance: InstanceId, taken: Taken | None) -> list[Effect]:
        """`taken`: a new snapshot of an operator; None for a sink, which closes its stream once more."""
        self.unstored_finals.discard(instance)
        if taken is None:
            return self._closed(instance, self.streams[self._sinks[instance]], FINAL)
        return self._snapshotted(Snapshotted(instance, FINAL, taken, True))

    @property
    def kept(self) -> dict[InstanceId, list[Part]]:
        """The parts that a restore of something committed, or soon to be, may ask for."""
        return {it: links.kept for it, links in self._links.items()}

    def repaired(self, instance: InstanceId, before: Part, after: Part) -> list[Effect]:
        """A part has other holders: the notes of the next epochs say so."""
        return self._note(instance) if self._links[instance].replace(before, after) else []

    def synced(self, instance: InstanceId, epoch: int) -> list[Effect]:
        self._unsynced[instance] = {it for it in self._unsynced[instance] if it > epoch}
        return self._note(instance)

    def commit(self, epoch: int) -> list[Effect]:
        """The epoch stands."""
        if epoch <= self.committed:
            return []
        self.committed = epoch
        out: list[Effect] = []
        # What was acknowledged for this epoch, not what we know by now: an end may have come behind its token.
        notes = self._checkpoint.notes(epoch) if self._checkpoint.is_complete(epoch) else {}
        for name, stream in self.streams.items():
            instance = sink_instance(self.share.plan, name)
            is_last = instance in notes and notes[instance].is_final
            shown = stream.show(FINAL if is_last else epoch)
            out.append(Shown(name, [] if stream.is_eager else shown))  # an eager one has shown them already
            self._ends[instance] = {at: end for at, end in self._ends[instance].items() if at > epoch}
        for instance, feed in self.feeds.items():
            offset = feed.committed(epoch)
            if offset is not None:
                out.append(Trim(instance, offset))
        for instance, links in self._links.items():
            gone = links.forget(epoch)
            if gone:
                out.append(LetGo(instance, gone, links.kept))
        self._checkpoint.committed(epoch)
        self.is_over = bool(notes) and all(note.is_final for note in notes.values())
        return out

    # -- how an instance comes to its note --

    def _snapshotted(self, effect: Snapshotted) -> list[Effect]:
        if effect.instance in self._sinks:
            return []  # a sink's state is its stream: see `arrived`
        taken: Taken | None = effect.snapshot
        if taken is None:
            return self._unstored(effect.instance, effect.epoch)
        self._links[effect.instance].taken(effect.epoch, is_base=taken.is_base)
        return [Store(effect.instance, effect.epoch, taken.encode)]

    def _closed(self, instance: InstanceId, stream: FinishedStream, epoch: int) -> list[Effect]:
        part = stream.close(epoch)
        self._ends[instance][epoch] = stream.end
        if not self.keeps_state:
            return self._unstored(instance, epoch)
        self._links[instance].taken(epoch, is_base=part.is_base)
        return [Store(instance, epoch, part.encode)]

    def _unstored(self, instance: InstanceId, epoch: int) -> list[Effect]:
        """There is nothing to store: the app asked for no guarantee."""
        self._links[instance].taken(epoch, is_base=True)
        return self.stored(instance, epoch, Part(self.record.generation, epoch, True, b""))

    def _note(self, instance: InstanceId) -> list[Effect]:
        """Write the note of each epoch of which everything is there now."""
        links = self._links[instance]
        for epoch in links.waiting():
            parts = links.parts(epoch)
            if parts is None or epoch in self._unsynced.get(instance, ()) or epoch <= self.committed:
                continue
            feed = self.feeds.get(instance)
            offset = None if feed is None else feed.offset_of(epoch)
            end = self._ends.get(instance, {}).get(epoch)
            if epoch == FINAL:
                self._checkpoint.final(instance, Note(parts, offset, end, is_final=True))
            else:
                self._checkpoint.noted(instance, epoch, Note(parts, offset, end))
        return self._acknowledge()

    def _acknowledge(self) -> list[Effect]:
        latest = self._checkpoint.latest
        if self._checkpoint.is_final and (latest is None or latest <= self.committed):
            return self._nudge()
        if latest is None or latest <= self.committed:
            return []
        return [Acknowledged(latest, self._checkpoint.notes(latest))]

    def _nudge(self) -> list[Effect]:
        if self._is_nudged or self.is_over:
            return []
        self._is_nudged = True
        return [Nudged()]

    def facts(self) -> dict[str, Any]:
        return {"epoch": self.committed, "begun": self.begun}
