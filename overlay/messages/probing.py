"""Asking a peer whether it lives, through others if need be, and telling what is said of whom.

A heartbeat is a `Ping` and its `Ack`; both carry the sender's vitals and a few rumours, so that news travels
on messages that flow anyway.
"""

from dataclasses import dataclass
from typing import Annotated

from overlay.vitals import Vitals
from overlay.wire import U32, U64, Flag, WireContact, WirePeers, listed, message, one_of, struct

WITNESSES_MAX = 8
"""Most witnesses that we name in one rumour, and that we count: three shorten any wait to its minimum."""
RUMOURS_MAX = 8
"""Most rumours in one message: about 2 KiB, far below a frame; the others go with the next message."""
INCARNATION_MAX = (1 << 32) - 1
"""An incarnation stops here, so that a lie about it cannot make its owner send what no message can hold."""


@dataclass(frozen=True, slots=True)
class Rumour:
    """What is said of `contact` in its `incarnation`, and who has seen it with his own eyes.

    Only the peer itself raises its incarnation: a rumour of a lower one is out of date.
    """

    status: Annotated[str, one_of("alive", "suspect", "confirmed", "left")]
    contact: WireContact
    incarnation: U32
    witnesses: WirePeers


WireVitals = Annotated[Vitals, struct(Vitals)]
WireRumours = Annotated[tuple[Rumour, ...], listed(struct(Rumour), RUMOURS_MAX)]


@message(tag=30)
@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there? `suspected` says that the sender doubts it, so that the accused can refute."""

    nonce: U64
    incarnation: U32
    vitals: WireVitals
    suspected: Flag
    rumours: WireRumours


@message(tag=31)
@dataclass(frozen=True, slots=True)
class Ack:
    """Yes. Handed on by a helper, it still carries incarnation and vitals of the peer that answered."""

    nonce: U64
    incarnation: U32
    vitals: WireVitals
    rumours: WireRumours


@message(tag=32)
@dataclass(frozen=True, slots=True)
class PingRequest:
    """I cannot reach `target`; please ping it for me, and tell me either way."""

    nonce: U64
    target: WireContact


@message(tag=33)
@dataclass(frozen=True, slots=True)
class Nack:
    """I could not reach it either. It also proves to the asker that his own network works."""

    nonce: U64


@message(tag=34)
@dataclass(frozen=True, slots=True)
class Rumours:
    """News that would not wait for the next heartbeat."""

    rumours: WireRumours
