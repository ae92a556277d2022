"""What a host is handed with `Host`, and a register member with `Keep`: the record of the app, and the app itself.

    [record, sealed bundle, reasons]      in msgpack

The bundle stays sealed: whoever hosts it opens it by himself (bundles/sealing.py) and believes nobody who passed it on.
The record names the hosts' addresses, so that the first row needs no lookup, and says from which epoch to begin.
Reasons say why everything is where it is, for a person who asks (reasons.py); nobody acts upon them. Bytes that are no
charter are a `WireError`.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

from dataflow.deploying.reasons import REASONS_BYTES_MAX
from dataflow.generations.record import RECORD_BYTES_MAX, Record, unpack_record
from dataflow.hosting.assignment import Assignment
from overlay.contact import Contact
from overlay.frames import BODY_BYTES_MAX
from overlay.ids import PeerId
from overlay.wire import WireError


@dataclass(frozen=True, slots=True)
class Charter:
    record: Record
    sealed: bytes
    reasons: str = ""

    @property
    def assignment(self) -> Assignment:
        return self.record.assignment

    @property
    def contacts(self) -> tuple[Contact, ...]:
        return self.record.contacts

    def contact_of(self, peer: PeerId) -> Contact:
        """Where a host lives; every host has a contact, or `unpack_charter` had refused the charter."""
        contact = self.record.contact_of(peer)
        assert contact is not None
        return contact

    def pack(self) -> bytes:
        raw: bytes = msgpack.packb([self.record.pack(), self.sealed, self.reasons])
        return raw


def unpack_charter(raw: bytes | bytearray | memoryview) -> Charter:
    try:
        parts = msgpack.unpackb(
            raw,
            max_array_len=3,
            max_map_len=0,
            max_ext_len=0,
            max_str_len=REASONS_BYTES_MAX,
            max_bin_len=BODY_BYTES_MAX,
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise WireError("bad-charter", str(error)[:80] or type(error).__name__) from None
    if type(parts) is not list or [type(it) for it in parts] != [bytes, bytes, str]:
        raise WireError("bad-charter", "a charter has a record, a sealed bundle and reasons")
    assert RECORD_BYTES_MAX <= BODY_BYTES_MAX
    record = unpack_record(parts[0])
    known = {contact.peer for contact in record.contacts}
    unknown = set(record.assignment.peers()) - known
    if unknown:
        raise WireError("bad-charter", f"{len(unknown)} hosts without an address")
    return Charter(record, parts[1], parts[2])
