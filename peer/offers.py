"""What a device offers to apps: its sources, as records in the directory.

A record says who offers a source and where that peer lives; what is behind the name (a file, a topic, a port) stays
on the device. `peer offers` shows it to whoever sits there.
"""

from __future__ import annotations

from typing import Final, get_args

import msgpack

from overlay.contact import Contact
from overlay.records import Record
from overlay.wire import WireContact, WireError

SOURCE: Final = "source"
_CONTACT: Final = get_args(WireContact)[1]


def offer_value(contact: Contact) -> bytes:
    raw: bytes = msgpack.packb(_CONTACT.pack(contact))
    return raw


def read_offer(record: Record) -> Contact:
    """Who offers it, and where; `WireError` if the record does not say."""
    try:
        contact: Contact = _CONTACT.unpack(msgpack.unpackb(record.value, max_map_len=0, max_ext_len=0))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError("bad-offer", str(error)[:80]) from None
    if contact.peer != record.publisher:
        raise WireError("bad-offer", "a record that offers somebody else's source")
    return contact
