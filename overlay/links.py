"""What the connections of a process tell its owner: values, and the calls that carry them.

A *connection* is one socket; a *link* is what two devices have while at least one connection between them is
open. So crossing dials and restarts make connections come and go while the link stays.

    LinkUp, LinkMember, LinkDown, LinkRefused     observations, for logs and for the cache of contacts
    Greeting                                      who lives at an address
    Upcalls                                       how a message, a body, a lost link reach the owner
    Reports                                       the counters and the refusals of all shells below

Pure: nothing here knows a socket. Rejected: a queue between the connections and their owner; the owner never
blocks, so a queue would only add a place where messages wait.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from overlay.admission import Refusal, Visitor
from overlay.contact import Contact
from overlay.frames import Frame
from overlay.ids import PeerId

Address = tuple[str, int]


def address_text(address: Address) -> str:
    """
    >>> address_text(("10.0.0.7", 4000)), address_text(("::1", 4000))
    ('10.0.0.7:4000', '[::1]:4000')
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class UnreachableError(Exception):
    """Data could not be handed to a peer: no connection came about, or it broke."""


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A device was admitted. An observation, for logs and for the cache of contacts."""

    contacts: tuple[Contact, ...]
    is_dialled: bool
    is_member: bool


@dataclass(frozen=True, slots=True)
class LinkMember:
    """A connected device has entered a ring, or has left it."""

    contacts: tuple[Contact, ...]
    is_member: bool


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The last connection to a device ended; `reason` is `closed`, or why we ended it."""

    contacts: tuple[Contact, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class LinkRefused:
    """We refused somebody, or (`is_dialled`) did not get where we dialled."""

    address: str
    is_dialled: bool
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who lives at an address, and whether it is in a ring, by its last word."""

    contacts: tuple[Contact, ...]
    is_member: bool


@dataclass(slots=True, kw_only=True)
class Upcalls:
    """What `Connections` tells its owner. None of these may block, but for `visited`."""

    received: Callable[[PeerId, Contact, Any], None]
    """(to, sender, message)"""
    received_data: Callable[[PeerId, Contact, Frame], None]
    """(to, sender, frame)"""
    link_lost: Callable[[PeerId, str], None]
    """(peer, "closed" or "refused")"""
    observed: Callable[[Any], None] = field(default=lambda _: None)
    visited: Callable[[Any, Visitor], Awaitable[None]] | None = None
    """(stream, who): answer the one question of a visitor. May take its time; the stream is closed afterwards."""


@dataclass(frozen=True, slots=True)
class Reports:
    """Where all parts of a process's connections count and tell."""

    upcalls: Upcalls
    counters: Counter[str]

    def refused(self, address: Address, refusal: Refusal, *, is_dialled: bool) -> None:
        self.counters[f"refused.{refusal.reason}"] += 1
        self.observed_refusal(address, refusal.reason, refusal.detail, is_dialled=is_dialled)

    def observed_refusal(self, address: Address, reason: str, detail: str, *, is_dialled: bool) -> None:
        self.upcalls.observed(LinkRefused(address_text(address), is_dialled, reason, detail))
