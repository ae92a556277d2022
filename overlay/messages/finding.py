"""Asking a peer whom it knows near a key."""

from dataclasses import dataclass
from typing import Annotated

from overlay.vitals import Vitals
from overlay.wire import U32, U64, Contacts, WireKey, message, struct


@message(tag=20)
@dataclass(frozen=True, slots=True)
class FindNode:
    """Whom do you know nearest to `key`?"""

    nonce: U64
    key: WireKey
    want: U32


@message(tag=21)
@dataclass(frozen=True, slots=True)
class Found:
    """These, nearest first. And this is how I am, since you asked."""

    nonce: U64
    contacts: Contacts
    vitals: Annotated[Vitals, struct(Vitals)]
