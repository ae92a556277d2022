"""Which instance of an app runs on which peer: one generation of it, as a plain value.

Everybody who has a part in an app holds the same assignment and derives the rest from it: what to start, whom to
accept frames from, where to send. It names a peer *and* its boot, so that a device that restarted does not take
itself for what it was before.

A stage has as many copies as places name it. A sink is no stage of the plan, it only reads one: on peers it gets
an instance of its own, with a negative stage, so that it has a place and an edge like any other.

Promises: `places` are sorted and name no instance twice; `unpack` reads what `pack` wrote, and of anything else says in
one `AssignmentError` what is wrong with it. Pure.
Rejected: a map from instance to peer (no order, so two peers could pack it into different bytes).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgpack

from dataflow.plan import Plan
from overlay.ids import ID_BYTES, PeerId, from_bytes, to_bytes

PLACES_MAX: Final = 1024
"""Instances of one app. A thousand places fill half of what a control message may hold."""
STAGES_MAX: Final = 1 << 15
APP_BYTES_MAX: Final = 128
BYTES_MAX: Final = 64 * 1024


class AssignmentError(ValueError):
    """An assignment that cannot be; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, order=True)
class InstanceId:
    """The `index`-th copy of `plan.stages[stage]`; a negative stage is a sink (see `sink_instance`)."""

    stage: int
    index: int

    @property
    def is_sink(self) -> bool:
        return self.stage < 0

    def __str__(self) -> str:
        return f"sink {-1 - self.stage}" if self.is_sink else f"{self.stage}.{self.index}"


@dataclass(frozen=True, slots=True, order=True)
class EdgeId:
    """One writer's port to one reader's input."""

    writer: InstanceId
    port: int
    reader: InstanceId
    input: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instance runs: a peer, in one life of it."""

    instance: InstanceId
    peer: PeerId
    boot_ms: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """One generation of an app.

    >>> one = Assignment("ab", 1, (Place(InstanceId(0, 0), PeerId(7), 1), Place(InstanceId(0, 1), PeerId(9), 1)))
    >>> one.copies(0), one.on(PeerId(9)), one == Assignment.unpack(one.pack())
    ((InstanceId(stage=0, index=0), InstanceId(stage=0, index=1)), (InstanceId(stage=0, index=1),), True)
    """

    app: str
    """The id of the app: the hash of its bundle, in hexadecimal."""
    generation: int
    places: tuple[Place, ...]

    def __post_init__(self) -> None:
        instances = [place.instance for place in self.places]
        if any(first >= second for first, second in pairwise(instances)):
            raise AssignmentError("the places of an assignment are sorted by instance and name each once")

    def copies(self, stage: int) -> tuple[InstanceId, ...]:
        """The instances of a stage, by index."""
        return tuple(place.instance for place in self.places if place.instance.stage == stage)

    def place_of(self, instance: InstanceId) -> Place:
        for place in self.places:
            if place.instance == instance:
                return place
        raise AssignmentError(f"generation {self.generation} of app {self.app[:8]} has no instance {instance}")

    def peer_of(self, instance: InstanceId) -> PeerId:
        return self.place_of(instance).peer

    def on(self, peer: PeerId) -> tuple[InstanceId, ...]:
        """What a peer hosts."""
        return tuple(place.instance for place in self.places if place.peer == peer)

    def peers(self) -> tuple[PeerId, ...]:
        """Who hosts anything, each once, by id."""
        return tuple(sorted({place.peer for place in self.places}))

    def edges(self, plan: Plan) -> tuple[EdgeId, ...]:
        """Every copy of a writer to every copy of its readers: rows go to one of them, control messages to all."""
        copies: dict[int, list[InstanceId]] = {}
        for place in self.places:
            copies.setdefault(place.instance.stage, []).append(place.instance)
        found = [
            EdgeId(writer, edge.port, reader, at)
            for stage in plan.stages
            for at, edge in enumerate(stage.inputs)
            for writer in copies.get(edge.node, ())
            for reader in copies.get(stage.id, ())
        ]
        for name, edge in plan.sinks.items():
            reader = sink_instance(plan, name)
            found += [EdgeId(writer, edge.port, reader, 0) for writer in copies.get(edge.node, ())]
        return tuple(sorted(found))

    def pack(self) -> bytes:
        places = [[it.instance.stage, it.instance.index, to_bytes(it.peer), it.boot_ms] for it in self.places]
        raw: bytes = msgpack.packb([self.app, self.generation, places])
        return raw

    @staticmethod
    def unpack(raw: bytes | bytearray | memoryview) -> Assignment:
        """The assignment in `raw`, or `AssignmentError`; never another exception."""
        if len(raw) > BYTES_MAX:
            raise AssignmentError(f"an assignment has at most {BYTES_MAX} bytes, not {len(raw)}")
        try:
            value = msgpack.unpackb(
                raw, raw=False, strict_map_key=True, max_array_len=PLACES_MAX, max_map_len=0, max_ext_len=0
            )
        except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
            raise AssignmentError(f"an assignment is msgpack: {str(error)[:80] or type(error).__name__}") from None
        app, generation, places = _listed(value, 3, "an assignment")
        if type(app) is not str or not 0 < len(app.encode(errors="replace")) <= APP_BYTES_MAX:
            raise AssignmentError(f"an app's id is text of 1 to {APP_BYTES_MAX} bytes")
        if type(places) is not list:
            raise AssignmentError(f"places are a list, not {type(places).__name__}")
        return Assignment(app, _whole(generation, "a generation", 0, 1 << 64), tuple(map(_place, places)))


def assigned(app: str, generation: int, places: Iterable[Place]) -> Assignment:
    """An assignment of places in any order."""
    return Assignment(app, generation, tuple(sorted(places, key=lambda it: it.instance)))


def sink_instance(plan: Plan, name: str) -> InstanceId:
    """The instance that reads for a sink: sinks count down from -1 in the order of their names."""
    return InstanceId(-1 - sorted(plan.sinks).index(name), 0)


def sink_name(plan: Plan, instance: InstanceId) -> str:
    """The inverse of `sink_instance`."""
    names = sorted(plan.sinks)
    if not instance.is_sink or -1 - instance.stage >= len(names):
        raise AssignmentError(f"instance {instance} is no sink of this app, which has {len(names)}")
    return names[-1 - instance.stage]


def _place(value: Any) -> Place:
    stage, index, peer, boot_ms = _listed(value, 4, "a place")
    if type(peer) is not bytes or len(peer) != ID_BYTES:
        raise AssignmentError(f"a peer's id is {ID_BYTES} bytes")
    instance = InstanceId(_whole(stage, "a stage", -STAGES_MAX, STAGES_MAX), _whole(index, "an index", 0, STAGES_MAX))
    return Place(instance, PeerId(from_bytes(peer)), _whole(boot_ms, "a boot", 0, 1 << 64))


def _listed(value: Any, length: int, name: str) -> list[Any]:
    if type(value) is not list or len(value) != length:
        raise AssignmentError(f"{name} is a list of {length}, not {type(value).__name__} {str(value)[:40]!r}")
    return value


def _whole(value: Any, name: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value < high:
        raise AssignmentError(f"{name} is a whole number from {low} to {high - 1}, not {str(value)[:40]!r}")
    return value
