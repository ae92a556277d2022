"""What two processes say about themselves: who are you, welcome, turned away, in a ring, goodbye; or: just visiting."""

from dataclasses import dataclass
from typing import Annotated, Final

from overlay.wire import U16, Contacts, Flag, Name, Sentence, message, one_of

PROTOCOL_VERSION: Final = 1

REASONS: Final = (
    # what a far end says of itself, or shows
    "foreign-ca",
    "expired",
    "not-yet-valid",
    "revoked",
    "bad-certificate",
    "bad-role",
    "no-certificate",
    "wrong-cluster",
    "version",
    "id-mismatch",
    "self",
    "duplicate",
    "insecure-not-loopback",
    # too much of it
    "too-many",
    "too-many-pending",
    "too-many-from-peer",
    "too-many-from-subnet",
    # what it sends
    "half-open",
    "not-tls",
    "not-a-frame",
    "bad-frame",
    "unknown-frame",
    "oversize",
    "bad-crc",
    "not-msgpack",
    "unknown-message",
    "bad-field",
    "no-hello",
    "not-here",
    "turned-away",
)
"""Every reason for which a connection or a frame is refused: the labels of one counter."""

Reason = Annotated[str, one_of(*REASONS)]


@message(tag=1)
@dataclass(frozen=True, slots=True)
class Hello:
    """We dialled you. These virtual peers live here; answer them at these addresses."""

    version: U16
    cluster: Name
    is_member: Flag
    """Are we in a ring right now? Two that both look for one should not wait for each other."""
    contacts: Contacts


@message(tag=6)
@dataclass(frozen=True, slots=True)
class Visit:
    """A person dialled you, not a peer: a question follows your welcome, and then no more."""

    version: U16
    cluster: Name


@message(tag=2)
@dataclass(frozen=True, slots=True)
class Welcome:
    """You are admitted, and these are we. Only after this is anything else said."""

    version: U16
    cluster: Name
    is_member: Flag
    """Are we in a ring right now? Two that both look for one should not wait for each other."""
    contacts: Contacts


@message(tag=3)
@dataclass(frozen=True, slots=True)
class TurnedAway:
    """You are not admitted, and this is why. The connection ends here."""

    reason: Reason
    detail: Sentence


@message(tag=4)
@dataclass(frozen=True, slots=True)
class Goodbye:
    """We say nothing more on this connection. End it when you have said all; we listen until then.

    So an idle connection ends without a message being lost, and without looking like a crash.
    """


@message(tag=5)
@dataclass(frozen=True, slots=True)
class Membership:
    """What we said in our HELLO is no longer so: now we are (not) in a ring."""

    is_member: Flag
