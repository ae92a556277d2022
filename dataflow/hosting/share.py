"""One peer's share of one generation of an app: its instances, what waits for them, and who may write to them.

A frame comes in (`feed`), a connector brings rows (`feed_source`), a sink has dealt with something (`taken`): each
gives effects. `begin` picks an instance that has input, and credit on all its outputs; its task is run by whoever has
a core to spare; `finish` hands on what came of it. `step` does all three, for one thread.

An instance reads the channel whose first message came first, and none that waits for a token. So nothing is held
inside an instance, and everything that waits is covered by the credit of its edge.

Before anything is taken: the app, the generation and the sender must be those of the assignment (DESIGN 4.1). At the
start a writer asks and a reader tells, so it does not matter which of them is there first, and no rows are sent to
somebody who is not there yet.

Pure; not thread-safe by itself (see crew.py).
Rejected: threads that own instances (as in engine/threads.py: a blocked writer would hold a thread, and nobody could
choose); one inbox an instance (one full channel would stop the others, and an aligned token could not come through).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dataflow.engine.instance import Instance
from dataflow.errors import AppError
from dataflow.hosting.assignment import Assignment, EdgeId, InstanceId, sink_name
from dataflow.hosting.channel import Channel, Item, item_of
from dataflow.hosting.choice import Choice, MostQueued, Queue
from dataflow.hosting.credit import Window
from dataflow.hosting.edge_frames import EdgeHeader, EdgeKind, app_tag, parse_header
from dataflow.hosting.effects import Arrived, Effect, Failed, ReadRegister, Ready, Refused, SendFrame, Snapshotted
from dataflow.hosting.inbound import EdgeBroken, Inbound
from dataflow.hosting.outbound import Outbound, Sending
from dataflow.hosting.passing import Passing
from dataflow.hosting.spreading import Spreading
from dataflow.hosting.stamps import NO_STAMP
from dataflow.hosting.tally import EdgeState, Tally, UnderWay
from dataflow.hosting.task import FINAL, OnEpoch, Task
from dataflow.messages import Data, Message, Token
from dataflow.operators.base import Operator
from dataflow.plan import Plan, Stage
from overlay.frames import Buffer
from overlay.ids import PeerId
from overlay.wire import WireError

SOURCE_MESSAGES_MAX = 4  # one being worked on, the next ones being parsed meanwhile
SINK_MESSAGES_MAX = 4  # handed to a sink and not dealt with: enough to keep a writer busy
SIDE_PORTS = ("late", "dead_letters")
LIGHT_ROWS_MAX = 1024
"""A step of so few rows costs less than handing it to another thread and back."""
LIGHT_KINDS = frozenset({"source", "filter", "select", "with_columns", "rename", "drop"})
"""Operators whose cost is that of their rows: without state, which may grow, and without a user's function."""


@dataclass(slots=True)
class _Hosted:
    """An instance that runs here."""

    id: InstanceId
    instance: Instance
    spreading: Spreading
    name: str
    is_light: bool
    channels: list[Channel] = field(default_factory=list)
    edges: list[int | None] = field(default_factory=list)  # of each channel; None for what a connector brings
    is_busy: bool = False
    passed_by: int = 0
    handed_out: int = 0  # a sink's: arrived, and not dealt with


@dataclass(slots=True)
class _LocalEdge:
    """An edge within this process: its room is that of the reader's channel."""

    channel: Channel
    window: Window

    def has_room(self, *, for_token: bool = False) -> bool:
        count = len(self.channel)
        return count < self.window.messages - (0 if for_token else 1) and self.channel.size_bytes <= self.window.bytes


class Share:
    def __init__(
        self,
        plan: Plan,
        assignment: Assignment,
        me: PeerId,
        *,
        boot_ms: int | None = None,
        make: Callable[[Stage], Operator] | None = None,
        choice: Choice | None = None,
        window: Window | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> None:
        self.plan = plan
        self.assignment = assignment
        self.me = me
        self.failed: str | None = None
        self.side_rows = dict.fromkeys(SIDE_PORTS, 0)
        self.tally = Tally()
        self._tag = app_tag(assignment.app)
        self._window = window or Window()
        self._choice = choice or MostQueued()
        self._on_epoch = on_epoch
        self._make = make or Stage.make
        self._arrivals = 0
        self._peers = {place.instance: place.peer for place in assignment.places}
        self._edges = dict(enumerate(assignment.edges(plan)))
        self._check_boot(boot_ms)
        self._hosted = {id_: self._host(id_) for id_ in assignment.on(me)}
        self._ins: dict[int, tuple[_Hosted, int, Inbound]] = {}
        self._outs: dict[int, Outbound | _LocalEdge] = {}
        for number, edge in self._edges.items():
            self._connect(number, edge)
        self._remote = frozenset(number for number, out in self._outs.items() if isinstance(out, Outbound))

    # -- what happens --

    def mark_ended(self, writers: Collection[InstanceId]) -> None:
        """These have ended for good in the epoch that we begin from, and will not say so again."""
        for number, edge in self._edges.items():
            reader = self._hosted.get(edge.reader)
            if reader is not None and edge.writer in writers:
                reader.instance.mark_ended(reader.edges.index(number))

    def start(self) -> list[Effect]:
        """Say that we are there: readers tell their credit, writers ask for it."""
        peers = {self._peers[edge.writer] for edge in self._edges.values()}
        peers |= {self._peers[edge.reader] for edge in self._edges.values()}
        return [effect for peer in sorted(peers - {self.me}) for effect in self.reconnected(peer)]

    def reconnected(self, peer: PeerId) -> list[Effect]:
        """A connection was lost, and is there again (or for the first time): repeat what may have been lost."""
        out: list[Effect] = []
        for number, (_, _, inbound) in self._ins.items():
            if self._peers[self._edges[number].writer] == peer:
                out.append(self._credit(number, inbound))
        for number, outbound in self._outs.items():
            if isinstance(outbound, Outbound) and self._peers[self._edges[number].reader] == peer:
                out += self._sent(number, [outbound.ask(), *outbound.resend()])
        return out

    def feed(self, sender: PeerId, header: Buffer, body: Buffer = b"") -> list[Effect]:
        """A frame of this app, from an authenticated peer; its body has been checked against its sum."""
        if self.failed:
            return []
        try:
            return self._on_frame(sender, parse_header(header), body)
        except EdgeBroken as error:
            return [Refused(sender, error.reason, str(error)), self._fail(str(error), error)]
        except WireError as error:
            return [Refused(sender, error.reason, str(error))]

    def wants(self, source: str, copy: int | None = None) -> bool:
        """May this source be fed? If not, a `Ready` will say when."""
        return not self.failed and len(self._source(source, copy).channels[0]) < SOURCE_MESSAGES_MAX

    def feed_source(
        self,
        source: str,
        message: Message,
        copy: int | None = None,
        *,
        stamp: int = NO_STAMP,
        is_forced: bool = False,
    ) -> None:
        """What a connector read. Only when the source is wanted: this is where back-pressure ends.

        `is_forced`: an end that will not wait, because somebody drains the app.
        """
        assert is_forced or self.wants(source, copy), f"source {source} was fed although it has to wait"
        self._put(self._source(source, copy).channels[0], item_of(message, stamp=stamp))

    def feed_side(self, source: str, port: int, message: Message, copy: int | None = None) -> None:
        """What a connector itself sets aside: it leaves the source by this port."""
        assert self.wants(source, copy), f"source {source} was fed although it has to wait"
        self._put(self._source(source, copy).channels[0], item_of(message, port=port))

    def feed_token(self, source: str, epoch: int, copy: int | None = None) -> None:
        """End an epoch at this source. Whether it is wanted or not: there is always one more place for a token."""
        self._put(self._source(source, copy).channels[0], item_of(Token(epoch)))

    def taken(self, sink: str, count: int = 1) -> None:
        """The sink has dealt with so many arrivals."""
        hosted = next(it for it in self._hosted.values() if it.id.is_sink and it.name == sink)
        assert 0 < count <= hosted.handed_out
        hosted.handed_out -= count

    def begin(self) -> Task | None:
        """The next step, or None if no instance can run. Until it is finished, its instance is left alone."""
        if self.failed:
            return None
        readable = {it.id: at for it in self._hosted.values() if (at := self._readable(it)) is not None}
        if not readable:
            return None
        ready = [self._hosted[id_] for id_ in readable]
        chosen = self._choice.pick([Queue(it.id, self._rows(it), it.passed_by) for it in ready])
        for it in ready:
            it.passed_by += 1
        hosted, at = self._hosted[chosen.instance], readable[chosen.instance]
        hosted.passed_by, hosted.is_busy = 0, True
        items = hosted.channels[at].take()
        return Task(
            hosted.id,
            hosted.instance,
            at,
            items,
            hosted.is_light and sum(item.rows for item in items) <= LIGHT_ROWS_MAX,
            hosted.spreading,
            self._remote,
            self._window.bytes // 2,
            self._on_epoch,
        )

    def is_mine(self, task: Task) -> bool:
        """Was it begun here, and not by another generation's share?"""
        hosted = self._hosted.get(task.id)
        return hosted is not None and task.is_of(hosted.instance)

    def finish(self, task: Task) -> list[Effect]:
        """Hand on what came of a step."""
        hosted = self._hosted[task.id]
        hosted.is_busy = False
        if self.failed:
            return []
        if task.error is not None:
            return [self._fail(f"{self._called(hosted)} failed: {_sentence(task.error)}", task.error)]
        out = self._worked(hosted, task)
        out += [Snapshotted(hosted.id, epoch, it, epoch == FINAL) for epoch, it in task.snapshots]
        self._count_sides(hosted, task)
        if hosted.id.is_sink:
            hosted.handed_out += len(task.outputs)
            return [*out, *(Arrived(hosted.name, message, task.stamp) for _, message in task.outputs)]
        self.tally.gave(task.id, (what for _, what, *_ in task.deliveries))
        for edge, *what in task.deliveries:
            out += self._deliver(edge, *what)
        return out

    def step(self) -> list[Effect] | None:
        """One step in this thread; None if there was nothing to do."""
        task = self.begin()
        if task is None:
            return None
        task.run()
        return self.finish(task)

    # -- what can be seen --

    @property
    def ended(self) -> bool:
        """Has everything that runs here seen the end of its input?"""
        return all(it.instance.ended for it in self._hosted.values())

    def instance(self, id_: InstanceId) -> Instance:
        return self._hosted[id_].instance

    def queued(self) -> dict[InstanceId, tuple[int, int]]:
        """Rows and bytes that wait in front of each instance."""
        return {
            it.id: (sum(c.rows for c in it.channels), sum(c.size_bytes for c in it.channels))
            for it in self._hosted.values()
        }

    def kept_bytes(self) -> int:
        """Memory in edges: what waits here, and what was sent and may have to be sent again."""
        kept = sum(out.kept_bytes for out in self._outs.values() if isinstance(out, Outbound))
        return kept + sum(size for _, size in self.queued().values())

    def edges(self) -> list[EdgeState]:
        """The edges that leave this process: what is under way on each, and how much more may be."""
        return [
            EdgeState(number, str(edge.writer), str(edge.reader), **out.state())
            for number, edge in self._edges.items()
            if isinstance(out := self._outs.get(number), Outbound)
        ]

    def under_way(self) -> UnderWay:
        """What has come in and is not dealt with, and how far each side of our edges is: see tally.py."""
        waiting = sum(len(c) for it in self._hosted.values() for c in it.channels)
        waiting += sum(it.is_busy + it.handed_out for it in self._hosted.values())
        outs = [out for out in self._outs.values() if isinstance(out, Outbound)]
        waiting += sum(out.waiting_messages for out in outs)
        return UnderWay(
            waiting, sent=sum(out.sent_messages for out in outs), taken=sum(it.last for _, _, it in self._ins.values())
        )

    def can_run(self) -> bool:
        return not self.failed and any(self._readable(it) is not None for it in self._hosted.values())

    # -- building --

    def _check_boot(self, boot_ms: int | None) -> None:
        for place in self.assignment.places:
            if place.peer == self.me and boot_ms is not None and place.boot_ms != boot_ms:
                raise AppError(
                    f"generation {self.assignment.generation} of the app is meant for an earlier run of this peer; "
                    "wait for the next generation"
                )

    def _host(self, id_: InstanceId) -> _Hosted:
        reads = [(number, edge) for number, edge in self._edges.items() if edge.reader == id_]
        inputs = [edge.input for _, edge in reads]
        spreading = Spreading(self.plan, id_, self._edges)
        if id_.is_sink:
            hosted = _Hosted(id_, Instance(Passing(), inputs, 1), spreading, sink_name(self.plan, id_), True)
        else:
            stage = self.plan.stages[id_.stage]
            if not stage.inputs:
                inputs = [0]
                # Copies of a source have watermarks of their own: rows may not run ahead of the others'.
                if len(self.assignment.copies(id_.stage)) > 1:
                    stage = replace(stage, meets_itself=True)
            is_light = all(node.kind in LIGHT_KINDS for node in stage.nodes)
            hosted = _Hosted(id_, Instance(self._make(stage), inputs, stage.ports), spreading, stage.name, is_light)
        hosted.channels = [Channel() for _ in inputs]
        hosted.edges = [number for number, _ in reads] or [None] * len(inputs)
        return hosted

    def _connect(self, number: int, edge: EdgeId) -> None:
        reader, writer = self._hosted.get(edge.reader), self._hosted.get(edge.writer)
        if reader is None and writer is None:
            return
        schema = self.plan.stages[edge.writer.stage].nodes[-1].draft.outputs[edge.port].schema
        if reader is not None and writer is not None:
            self._outs[number] = _LocalEdge(reader.channels[reader.edges.index(number)], self._window)
            return
        _refuse_dictionaries(schema, self.plan.stages[edge.writer.stage].name)
        if reader is not None:
            self._ins[number] = (reader, reader.edges.index(number), Inbound(number, schema, self._window))
        else:
            self._outs[number] = Outbound(self._tag, self.assignment.generation, number)

    # -- frames --

    def _on_frame(self, sender: PeerId, header: EdgeHeader, body: Buffer) -> list[Effect]:
        ours = self.assignment.generation
        if header.app != self._tag:
            raise WireError("other-app", "a frame of another app")
        if header.kind is EdgeKind.STALE:
            return [ReadRegister(self.assignment.app, header.a)] if header.a > ours else []
        if header.generation > ours:
            return [ReadRegister(self.assignment.app, header.generation)]
        if header.generation < ours:
            stale = EdgeHeader(self._tag, header.generation, header.edge, 0, EdgeKind.STALE, a=ours)
            detail = f"a frame of generation {header.generation}, we are in {ours}"
            return [Refused(sender, "stale", detail), SendFrame(sender, stale.pack())]
        edge = self._edges.get(header.edge)
        if edge is None:
            raise WireError("no-such-edge", f"edge {header.edge} of {len(self._edges)}")
        is_credit = header.kind is EdgeKind.CREDIT
        if sender != self._peers[edge.reader if is_credit else edge.writer]:
            raise WireError("wrong-sender", f"edge {header.edge} is not assigned to whoever sent a {header.kind.name}")
        return self._on_credit(header) if is_credit else self._on_sequenced(header, body)

    def _on_credit(self, header: EdgeHeader) -> list[Effect]:
        outbound = self._outs.get(header.edge)
        if not isinstance(outbound, Outbound):
            raise WireError("not-here", f"edge {header.edge} is not written here")
        return self._sent(header.edge, outbound.on_credit(header))

    def _on_sequenced(self, header: EdgeHeader, body: Buffer) -> list[Effect]:
        if header.edge not in self._ins:
            raise WireError("not-here", f"edge {header.edge} is not read here")
        hosted, at, inbound = self._ins[header.edge]
        items = None if header.kind is EdgeKind.ASK else inbound.accept(header, body)
        if items is None:
            return [self._credit(header.edge, inbound)]
        for item in items:
            self._put(hosted.channels[at], item)
        return [self._credit(header.edge, inbound)] if inbound.meter.is_due() else []

    def _credit(self, number: int, inbound: Inbound) -> Effect:
        writer = self._peers[self._edges[number].writer]
        return SendFrame(writer, inbound.credit(self._tag, self.assignment.generation))

    def _sent(self, number: int, frames: Iterable[Sending]) -> list[Effect]:
        reader = self._peers[self._edges[number].reader]
        return [SendFrame(reader, header, body) for header, body in frames]

    # -- steps --

    def _readable(self, hosted: _Hosted) -> int | None:
        """The channel to read next, if the instance can run at all."""
        if hosted.is_busy:
            return None
        waiting = [
            (*channel.head(), at)
            for at, channel in enumerate(hosted.channels)
            if len(channel) and not hosted.instance.is_waiting(at)
        ]
        for_rows = self._has_room(hosted, for_token=False)
        if not for_rows:  # then only a token may pass
            waiting = [it for it in waiting if it[1] is EdgeKind.TOKEN]
            if not waiting or not self._has_room(hosted, for_token=True):
                return None
        return min(waiting)[2] if waiting else None

    def _has_room(self, hosted: _Hosted, *, for_token: bool) -> bool:
        if hosted.id.is_sink:
            return hosted.handed_out < SINK_MESSAGES_MAX + for_token
        return all(self._outs[edge].has_room(for_token=for_token) for edge in hosted.spreading.edges)

    def _rows(self, hosted: _Hosted) -> int:
        return sum(channel.rows + len(channel) for channel in hosted.channels)

    def _worked(self, hosted: _Hosted, task: Task) -> list[Effect]:
        """Give back the credit of what was worked on."""
        self.tally.took(task.id, task.items)
        number = hosted.edges[task.channel]
        if number is None:
            left = len(hosted.channels[task.channel])
            was_full = left < SOURCE_MESSAGES_MAX <= left + len(task.items)
            return [Ready(self._source_name(hosted.id), hosted.id.index)] if was_full else []
        if number not in self._ins:
            return []
        inbound = self._ins[number][2]
        is_due = [inbound.on_worked(item.size_bytes) for item in task.items][-1]
        # The end is always told: its writer waits for nothing else before it lets go.
        is_due = is_due or task.items[-1].kind is EdgeKind.END
        return [self._credit(number, inbound)] if is_due else []

    def _deliver(self, edge: int, what: object, schema: pa.Schema | None = None) -> list[Effect]:
        out = self._outs[edge]
        if isinstance(out, _LocalEdge):
            assert isinstance(what, Item)
            self._put(out.channel, what)
            return []
        assert not isinstance(what, Item)
        return self._sent(edge, out.offer(what, schema))  # type: ignore[arg-type]

    def _put(self, channel: Channel, item: Item) -> None:
        self._arrivals += 1
        channel.put(item, self._arrivals)

    def _count_sides(self, hosted: _Hosted, task: Task) -> None:
        if hosted.id.is_sink:
            return
        names = self.plan.stages[hosted.id.stage].nodes[-1].draft.ports
        for port, message in task.outputs:
            if port and isinstance(message, Data) and names[port] in self.side_rows:
                self.side_rows[names[port]] += message.batch.num_rows

    def _source(self, name: str, copy: int | None) -> _Hosted:
        stage = self.plan.sources[name]
        here = [it for it in self._hosted.values() if it.id.stage == stage and copy in (None, it.id.index)]
        assert len(here) == 1, f"{len(here)} copies of source {name} are here"
        return here[0]

    def _source_name(self, id_: InstanceId) -> str:
        return next(name for name, stage in self.plan.sources.items() if stage == id_.stage)

    def _called(self, hosted: _Hosted) -> str:
        what = "sink" if hosted.id.is_sink else "stage"
        return f'{what} "{hosted.name}" (copy {hosted.id.index})'

    def _fail(self, sentence: str, error: BaseException) -> Failed:
        self.failed = sentence
        return Failed(self.assignment.app, sentence, error)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, (AppError, WireError)) else f"{type(error).__name__}: {error}"


def _refuse_dictionaries(schema: pa.Schema, stage: str) -> None:
    """An encoded column would need its dictionary sent and kept in step on every edge."""
    for column in schema:
        if "dictionary<" in str(column.type):
            raise AppError(
                f'stage "{stage}" gives column "{column.name}" as {column.type}, which cannot travel between peers; '
                "cast it to its value type"
            )
