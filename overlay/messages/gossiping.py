"""Telling a peer what the zones have to offer, and whose certificates no longer count.

A `Digests` says of each zone which version of whose word the sender has, and repeats only the words that are
news; its `DigestsReply` brings the words that the asker lacks. Members are named by rank (digest.py).

Peers' clocks differ, so what counts of a word is its age, `sent_s - said_s`, both by the sender's clock: it is
too young only by the time that the message was under way. (An age in each word would mean the same; but then
every word would have to be made anew for every message.)
"""

from dataclasses import dataclass
from typing import Annotated

from overlay.denylist import DENYLIST_BYTES_MAX
from overlay.digest import MEMBERS_MAX, SCHEDULERS_MAX, Member
from overlay.wire import U64, Seconds, Zone, blob, listed, message, struct, text, uint

ZONES_MAX = 16
"""Most zones in one message: 16 zones of 41 words are 33 KiB. Further zones take their turn."""
OTHER_ZONES_MAX = 240
"""Most further zones that are named: with the 16 that are told, as many as a peer remembers."""
NEWS_MAX = 8
"""Most words of one zone in a `Digests`, which so stays below 36 KiB. Whoever lacks more will ask for them."""

WORDS_MAX = MEMBERS_MAX + SCHEDULERS_MAX

Numbers = Annotated[tuple[int, ...], listed(uint(64), WORDS_MAX)]


@dataclass(slots=True)
class ZoneGist:
    """Who is in a zone's samples, by rank; the version of each one's word, in the same order; and some words.

    Not frozen, though nobody changes it: a frozen one takes three times as long to make, for each zone of each message.
    """

    zone: Zone
    ranks: Numbers
    versions: Numbers
    words: Annotated[tuple[Member, ...], listed(struct(Member), NEWS_MAX)]


@dataclass(frozen=True, slots=True)
class ZoneWords:
    zone: Zone
    words: Annotated[tuple[Member, ...], listed(struct(Member), WORDS_MAX)]


@message(tag=60)
@dataclass(frozen=True, slots=True)
class Digests:
    """This is what I know, and that is news; what do you know?"""

    denylist_version: U64
    sent_s: Seconds
    zones: Annotated[tuple[ZoneGist, ...], listed(struct(ZoneGist), ZONES_MAX)]
    other_zones: Annotated[tuple[str, ...], listed(text(64), OTHER_ZONES_MAX)]
    """Zones whose turn it is not, so that nobody tells us of them as if we had never heard of them."""


@message(tag=61)
@dataclass(frozen=True, slots=True)
class DigestsReply:
    """This is what you did not know."""

    denylist_version: U64
    sent_s: Seconds
    zones: Annotated[tuple[ZoneWords, ...], listed(struct(ZoneWords), ZONES_MAX)]


@message(tag=62)
@dataclass(frozen=True, slots=True)
class DenylistNews:
    """You have an older denylist than this one, signed by our CA (denylist.py)."""

    raw: Annotated[bytes, blob(DENYLIST_BYTES_MAX)]
