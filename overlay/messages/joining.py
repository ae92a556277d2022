"""Becoming part of the ring, and taking leave of it."""

from dataclasses import dataclass

from overlay.wire import U16, U32, U64, Contacts, Flag, message


@message(tag=40)
@dataclass(frozen=True, slots=True)
class JoinRow:
    """From a hop of your JOIN: one row of my routing table, which fits yours."""

    row: U16
    contacts: Contacts


@message(tag=41)
@dataclass(frozen=True, slots=True)
class JoinLeaves:
    """From the owner of your id: my leaf set; yours is close to it."""

    contacts: Contacts


@message(tag=42)
@dataclass(frozen=True, slots=True)
class Announce:
    """I am part of the ring now. If `wants_leaves`: whom do you know that should hear of it?"""

    nonce: U64
    wants_leaves: Flag


@message(tag=43)
@dataclass(frozen=True, slots=True)
class Announced:
    """I know you now. Here are my leaves, if you are near enough for them to be yours."""

    nonce: U64
    contacts: Contacts


@message(tag=44)
@dataclass(frozen=True, slots=True)
class Leaving:
    """I leave the ring; these were my leaves, and may be yours."""

    incarnation: U32
    contacts: Contacts
