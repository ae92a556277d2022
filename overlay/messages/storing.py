"""Keeping records on the peers nearest to their key, and asking for them.

A reply repeats the nonce of its question. A list of records is filled up to a budget of bytes, not of
records: they are usually small, but eight of the largest must fit as well.
"""

from dataclasses import dataclass
from typing import Annotated

from overlay.records import Record
from overlay.wire import U16, U64, Contacts, Flag, WireKey, listed, message, struct, text

RECORDS_MAX = 64
"""Most records in one message. Whoever has more sends another message."""
RECORDS_BYTES_MAX = 52 * 1024
"""Most bytes of records in one message; the rest of the 64 KiB is for contacts and the frame."""

WireRecords = Annotated[tuple[Record, ...], listed(struct(Record), RECORDS_MAX)]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One record of a `Store` that was not kept: its place in the list, and why."""

    index: U16
    reason: Annotated[str, text(32)]


@message(tag=50)
@dataclass(frozen=True, slots=True)
class Store:
    """Keep these. `is_hand_over` says that the sender is a holder too, so an older sequence is no replay."""

    nonce: U64
    is_hand_over: Flag
    records: WireRecords


@message(tag=51)
@dataclass(frozen=True, slots=True)
class StoreReply:
    """All are kept but those named."""

    nonce: U64
    refused: Annotated[tuple[Refusal, ...], listed(struct(Refusal), RECORDS_MAX)]


@message(tag=52)
@dataclass(frozen=True, slots=True)
class Fetch:
    """Whom do you know nearest to `key`, and (if `wants_records`) what do you keep there?

    Records come by rising publisher, from the id `first` on: that is how to ask for the next page.
    """

    nonce: U64
    key: WireKey
    wants_records: Flag
    first: WireKey


@message(tag=53)
@dataclass(frozen=True, slots=True)
class FetchReply:
    """Contacts nearest first; records by rising publisher. `has_more`: ask again, from behind the last
    one."""

    nonce: U64
    contacts: Contacts
    records: WireRecords
    has_more: Flag
