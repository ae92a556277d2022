"""Telling a peer what the zones have to offer, and whose certificates no longer count.

A `Digests` is answered by a `DigestsReply` that brings only what the asker did not know. Peers' clocks
differ, so what counts of a word is its age, `sent_s - said_s`, both by the sender's clock: it is too young
only by the time that the message was under way. (An age in each word would mean the same; but then every
word would have to be made anew for every message.)
"""

from dataclasses import dataclass
from typing import Annotated

from overlay.denylist import DENYLIST_BYTES_MAX
from overlay.digest import MEMBERS_MAX, SCHEDULERS_MAX, Member
from overlay.wire import U64, Seconds, Zone, blob, listed, message, struct

ZONES_MAX = 16
"""Most zones in one message: 16 zones of 41 words are 33 KiB. Further zones take their turn."""


@dataclass(frozen=True, slots=True)
class ZoneWords:
    zone: Zone
    members: Annotated[tuple[Member, ...], listed(struct(Member), MEMBERS_MAX + SCHEDULERS_MAX)]


WireDigests = Annotated[tuple[ZoneWords, ...], listed(struct(ZoneWords), ZONES_MAX)]


@message(tag=60)
@dataclass(frozen=True, slots=True)
class Digests:
    """This is what I know; what do you?"""

    denylist_version: U64
    sent_s: Seconds
    digests: WireDigests


@message(tag=61)
@dataclass(frozen=True, slots=True)
class DigestsReply:
    """This is what you did not know."""

    denylist_version: U64
    sent_s: Seconds
    digests: WireDigests


@message(tag=62)
@dataclass(frozen=True, slots=True)
class DenylistNews:
    """You have an older denylist than this one, signed by our CA (denylist.py)."""

    raw: Annotated[bytes, blob(DENYLIST_BYTES_MAX)]
