"""What an app's register holds: one value that is either all of one agreement or all of the next.

Whoever reads it knows everything that is needed to go on: which generation runs where, which epoch is committed, and
where every instance's state of that epoch lies. It is written once an epoch, so it is kept small: the bundle itself
is with hosts and register members, and only its hash, the app's id, is here.

Promises: `unpack` reads what `pack` wrote; anything else is a `WireError`. A record never goes back: generation and
epoch only grow (`follows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, get_args

import msgpack

from dataflow.generations.notes import Note, unpack_note
from dataflow.generations.promise import Guarantee
from dataflow.hosting.assignment import (
    BYTES_MAX,
    PLACES_MAX,
    Assignment,
    AssignmentError,
    InstanceId,
)
from overlay.contact import Contact
from overlay.ids import PeerId, from_bytes, to_bytes
from overlay.wire import WireContact, WireError, listed

RECORD_BYTES_MAX: Final = 1 << 20
SECRET_BYTES: Final = 32
_CONTACTS: Final = listed(get_args(WireContact)[1], PLACES_MAX)


class Phase(StrEnum):
    """How an app's life goes. Only RUNNING is not the end of it."""

    RUNNING = "running"
    ENDED = "ended"
    HALTED = "halted"
    FAILED = "failed"
    DATA_LOSS = "data-loss"


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    life: int
    """The generation that the app was launched with. A second launch of the same bundle is another life of it."""
    assignment: Assignment
    contacts: tuple[Contact, ...]
    """Where the hosts live, and the register members, and whoever once hosted a source."""
    members: tuple[PeerId, ...]
    """The register's peers, in the order in which they lead."""
    secret: bytes
    """State is encrypted with it before it leaves a host; holders never see it."""
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    epoch_ms: int = 1000
    epoch: int = 0
    """The last committed epoch; 0 before the first."""
    notes: Mapping[InstanceId, Note] = field(default_factory=dict)
    """Of the committed epoch, by instance."""
    homes: Mapping[InstanceId, PeerId] = field(default_factory=dict)
    """On which device a copy of a source reads, for ever: its offset means that device's log."""
    phase: Phase = Phase.RUNNING
    reason: str = ""

    @property
    def app(self) -> str:
        return self.assignment.app

    @property
    def generation(self) -> int:
        return self.assignment.generation

    def contact_of(self, peer: PeerId) -> Contact | None:
        return next((it for it in self.contacts if it.peer == peer), None)

    def follows(self, before: Record) -> bool:
        """May this come after that one?"""
        later = (self.generation, self.epoch) >= (before.generation, before.epoch)
        return later and self.epoch >= before.epoch and before.phase is Phase.RUNNING

    @property
    def has_sources_away(self) -> bool:
        """Is a device away that reads for this app? Then its input has not ended."""
        return any(True for _ in self.sources_away())

    def sources_away(self) -> Iterator[InstanceId]:
        """Sources whose device is away, and that have more to say. One whose end is committed is not missed."""
        placed = {it.instance for it in self.assignment.places}
        for it in self.homes:
            note = self.notes.get(it)
            if it not in placed and not (note is not None and note.is_final):
                yield it

    # The ways on.

    def committed(self, epoch: int, notes: Mapping[InstanceId, Note]) -> Record:
        """The next epoch. Notes of sources that are away stay: their devices may come back."""
        assert epoch > self.epoch
        away = {it: note for it, note in self.notes.items() if it in self.homes and it not in notes}
        return replace(self, epoch=epoch, notes={**away, **notes})

    def moved(
        self, assignment: Assignment, contacts: tuple[Contact, ...], homes: Mapping[InstanceId, PeerId]
    ) -> Record:
        """The next generation, from the committed epoch."""
        assert assignment.generation > self.generation
        return replace(self, assignment=assignment, contacts=contacts, homes=homes)

    def with_member(self, newcomer: Contact, *, instead_of: PeerId) -> Record:
        """Another peer of the register; it is the last to lead."""
        members = (*(it for it in self.members if it not in (instead_of, newcomer.peer)), newcomer.peer)
        contacts = {it.peer: it for it in self.contacts} | {newcomer.peer: newcomer}
        return replace(self, members=members, contacts=tuple(contacts[peer] for peer in sorted(contacts)))

    def over(self, phase: Phase, reason: str = "") -> Record:
        return replace(self, phase=phase, reason=reason)

    def pack(self) -> bytes:
        raw: bytes = msgpack.packb(
            [
                self.name,
                self.life,
                self.assignment.pack(),
                _CONTACTS.pack(self.contacts),
                [to_bytes(it) for it in self.members],
                self.secret,
                str(self.guarantee),
                self.epoch_ms,
                self.epoch,
                [[it.stage, it.index, note.pack()] for it, note in sorted(self.notes.items())],
                [[it.stage, it.index, to_bytes(peer)] for it, peer in sorted(self.homes.items())],
                str(self.phase),
                self.reason,
            ]
        )
        if len(raw) > RECORD_BYTES_MAX:
            raise WireError("oversize", f"a record of {len(raw)} bytes, at most {RECORD_BYTES_MAX}")
        return raw


def unpack_record(raw: bytes | bytearray | memoryview) -> Record:
    if len(raw) > RECORD_BYTES_MAX:
        raise WireError("oversize", f"a record of {len(raw)} bytes, at most {RECORD_BYTES_MAX}")
    try:
        parts = msgpack.unpackb(
            raw, max_array_len=PLACES_MAX, max_map_len=0, max_ext_len=0, max_str_len=BYTES_MAX, max_bin_len=BYTES_MAX
        )
        name, life, assignment, contacts, members, secret, *rest = parts
        guarantee, epoch_ms, epoch, notes, homes, phase, reason = rest
        record = Record(
            _text(name),
            int(life),
            Assignment.unpack(assignment),
            _CONTACTS.unpack(contacts),
            tuple(_peer(it) for it in members),
            bytes(secret),
            Guarantee(guarantee),
            int(epoch_ms),
            int(epoch),
            {InstanceId(int(stage), int(index)): unpack_note(note) for stage, index, note in notes},
            {InstanceId(int(stage), int(index)): _peer(peer) for stage, index, peer in homes},
            Phase(phase),
            _text(reason),
        )
    except (ValueError, TypeError, OverflowError, AssignmentError, msgpack.UnpackException) as error:
        raise WireError("bad-record", str(error)[:80] or type(error).__name__) from None
    if len(record.secret) != SECRET_BYTES or not record.members or record.epoch < 0 or record.epoch_ms <= 0:
        raise WireError("bad-record", "a field that no record can have")
    return record


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("text was due")
    return value


def _peer(value: Any) -> PeerId:
    if type(value) is not bytes:
        raise TypeError("an id was due")
    return PeerId(from_bytes(value))
