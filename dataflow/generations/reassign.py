"""The next assignment, when peers are gone or have come.

    a source       on its own device, for its log is there. Away while the device is; back when it is
    anything else  stays where it is, unless that life of its peer is over; then on the least loaded peer with room,
                   rather one without another copy of the same stage, rather in the zone it was in

Promises: what need not move does not; nothing is on a peer that is gone, or has no room; the same input gives the same
assignment. Or `DoesNotFit`, which says what found no place. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from dataflow.deploying.requests import Room
from dataflow.generations.record import Record
from dataflow.hosting.assignment import Assignment, InstanceId, Place, assigned
from dataflow.placement.candidates import DoesNotFit
from overlay.contact import Contact
from overlay.ids import PeerId, short


@dataclass(frozen=True, slots=True)
class Move:
    """The next generation, and what it is for: a sentence for `peer explain`."""

    assignment: Assignment
    contacts: tuple[Contact, ...]
    homes: Mapping[InstanceId, PeerId]
    reasons: tuple[str, ...]


def reassign(
    record: Record, rooms: Iterable[Room], *, offers: Mapping[int, Iterable[Contact]] | None = None, generation: int = 0
) -> Move:
    """`rooms`: whoever answered just now, in its present life. `offers`: devices that bring a source, by stage."""
    here = {room.contact.peer: room for room in sorted(rooms, key=lambda it: it.contact.peer)}
    before = record.assignment
    homes = dict(record.homes)
    reasons = []
    for stage, devices in sorted((offers or {}).items()):
        for contact in sorted(devices, key=lambda it: it.peer):
            if contact.peer not in (peer for it, peer in homes.items() if it.stage == stage):
                index = 1 + max((it.index for it in homes if it.stage == stage), default=-1)
                homes[InstanceId(stage, index)] = contact.peer
                reasons.append(f"peer {short(contact.peer)} joined with a source")
    known = {place.instance: place for place in before.places}
    places: list[Place] = []
    for source, device in sorted(homes.items()):
        was = known.get(source)
        if device in here:
            places.append(Place(source, device, here[device].contact.boot_ms))
            if was is None and source in record.homes:
                reasons.append(f"source {source} is back on peer {short(device)}")
        elif was is not None:
            reasons.append(f"source {source} is away with peer {short(device)}")
    homeless = []
    for place in before.places:
        if place.instance in homes:
            continue
        room = here.get(place.peer)
        if room is not None and room.contact.boot_ms == place.boot_ms:
            places.append(place)
        else:
            homeless.append(place)
    places += _housed(record, homeless, places, here, reasons)
    assignment = assigned(before.app, max(generation, before.generation + 1), places)
    wanted = {*assignment.peers(), *record.members, *homes.values()}
    return Move(assignment, _contacts(record, here, wanted), homes, tuple(reasons))


def _housed(
    record: Record, homeless: list[Place], settled: list[Place], here: Mapping[PeerId, Room], reasons: list[str]
) -> list[Place]:
    """A place for each instance that lost its own."""
    own = Counter(place.peer for place in record.assignment.places if place.peer in here)
    added: Counter[PeerId] = Counter()
    stages = Counter((place.peer, place.instance.stage) for place in settled)
    found = []
    for place in homeless:
        was = record.contact_of(place.peer)
        zone = was.zone if was else ""

        def used(room: Room) -> float:
            # A restarted peer has given its slots back; counting them once more only makes it a little less liked.
            return (room.slots_used + added[room.contact.peer]) / max(room.slots, 1)

        able = [room for room in here.values() if room.slots_used + added[room.contact.peer] < room.slots]
        able = able or [room for room in here.values() if own[room.contact.peer] and room.slots]
        if not able:
            raise DoesNotFit(f"no peer that answers has room for instance {place.instance}")
        room = min(
            able,
            key=lambda it: (
                stages[it.contact.peer, place.instance.stage] > 0,
                used(it),
                it.contact.zone != zone,
                it.contact.peer,
            ),
        )
        peer = room.contact.peer
        added[peer] += 1
        stages[peer, place.instance.stage] += 1
        found.append(Place(place.instance, peer, room.contact.boot_ms))
        reasons.append(f"instance {place.instance} moved from {short(place.peer)}, which is gone, to {short(peer)}")
    return found


def _contacts(record: Record, here: Mapping[PeerId, Room], wanted: Collection[PeerId]) -> tuple[Contact, ...]:
    """As we know them now, and the others as they were."""
    known = {it.peer: it for it in record.contacts} | {peer: room.contact for peer, room in here.items()}
    return tuple(known[peer] for peer in sorted(wanted) if peer in known)
