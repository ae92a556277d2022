"""What a host is handed with `Host`: who runs what, where they all live, and the app itself.

    [assignment, [contact, ...], sealed bundle]      in msgpack

The bundle stays sealed: whoever hosts it opens it by himself (bundles/sealing.py) and believes nobody who passed it on.
Contacts are those of the hosts, so that the first row needs no lookup. Bytes that are no charter are a `WireError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

import msgpack

from dataflow.hosting.assignment import BYTES_MAX, PLACES_MAX, Assignment, AssignmentError
from overlay.contact import Contact
from overlay.frames import BODY_BYTES_MAX
from overlay.ids import PeerId
from overlay.wire import WireContact, WireError, listed

_CONTACTS: Final = listed(get_args(WireContact)[1], PLACES_MAX)


@dataclass(frozen=True, slots=True)
class Charter:
    assignment: Assignment
    contacts: tuple[Contact, ...]
    sealed: bytes

    def contact_of(self, peer: PeerId) -> Contact:
        """Where a host lives; every host has a contact, or `unpack` had refused the charter."""
        return next(it for it in self.contacts if it.peer == peer)

    def pack(self) -> bytes:
        raw: bytes = msgpack.packb([self.assignment.pack(), _CONTACTS.pack(self.contacts), self.sealed])
        return raw


def unpack_charter(raw: bytes | bytearray | memoryview) -> Charter:
    try:
        parts = msgpack.unpackb(
            raw,
            max_array_len=PLACES_MAX,
            max_map_len=0,
            max_ext_len=0,
            max_str_len=BYTES_MAX,
            max_bin_len=BODY_BYTES_MAX,
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise WireError("bad-charter", str(error)[:80] or type(error).__name__) from None
    if type(parts) is not list or len(parts) != 3 or type(parts[0]) is not bytes or type(parts[2]) is not bytes:
        raise WireError("bad-charter", "a charter has an assignment, contacts and a sealed bundle")
    try:
        assignment = Assignment.unpack(parts[0])
    except AssignmentError as error:
        raise WireError("bad-charter", str(error)) from None
    contacts = _CONTACTS.unpack(parts[1])
    unknown = set(assignment.peers()) - {contact.peer for contact in contacts}
    if unknown:
        raise WireError("bad-charter", f"{len(unknown)} hosts without an address")
    return Charter(assignment, contacts, parts[2])
