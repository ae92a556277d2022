"""What a device offers to apps: its sources, as records in the directory.

A record says who offers a source and where that peer lives; what is behind the name (a file, a topic, a port) stays
on the device. `peer offers --here` shows it to whoever sits there.

Launches look for one source by its name. Who wants to see all of them cannot know the names, so each device also
publishes one record that lists its own, under a name that everybody knows; a device with more than fit in 4 KiB
lists the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

import msgpack

from overlay.contact import Contact
from overlay.records import VALUE_BYTES_MAX, Record
from overlay.wire import WireContact, WireError

SOURCE: Final = "source"
OFFERS: Final = "offers"
SOURCES: Final = "sources"
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


def offers_value(contact: Contact, names: Sequence[str]) -> bytes:
    """All sources of one device, as many names as fit a record."""
    kept = list(names)
    while True:
        raw: bytes = msgpack.packb([_CONTACT.pack(contact), kept])
        if len(raw) <= VALUE_BYTES_MAX:
            return raw
        kept.pop()


def read_offers(record: Record) -> tuple[Contact, list[str]]:
    """Who offers what; `WireError` if the record does not say, or speaks for another."""
    try:
        raw, names = msgpack.unpackb(record.value, max_map_len=0, max_ext_len=0)
        contact: Contact = _CONTACT.unpack(raw)
        if contact.peer != record.publisher:
            raise ValueError("a record that offers somebody else's sources")
        return contact, [str(name) for name in names]
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError("bad-offer", str(error)[:80]) from None
