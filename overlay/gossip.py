"""Spread what every zone has to offer, a little at a time, to everybody.

Every period a peer picks a random contact, tells it what it knows of the zones and hears what it did not
know: one message each way. News doubles its audience with every period at least, so it is everywhere after
O(log N) of them, and a lost message costs nothing but time. What is told is digests (digest.py), which may
be told twice.

The denylist travels along: each message says its version, and whoever hears of an older one sends his list.

Promises: one pair of messages a period, whatever the number of peers; a message fits 64 KiB, for it holds
at most 16 zones, ours first, the others by turns; memory is bounded by the number of zones. A member that
falls silent is forgotten everywhere after `silence_s`.

What gossip says is not signed: an admitted peer may lie about itself and others, for as long as it goes on.
It guides choices; nothing is decided by it alone. The denylist is signed, and decides.

Pure: `receive` and `wake` return effects. Rejected: flooding (N messages a word); a tree (breaks at each
crash).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from overlay.contact import Contact
from overlay.denylist import NOBODY, Denylist, DenylistError
from overlay.digest import Member, ZoneDigest, ZoneTotals
from overlay.effects import Effects, Later, Refused, Send
from overlay.messages.gossiping import ZONES_MAX, DenylistNews, Digests, DigestsReply, ZoneWords


@dataclass(frozen=True, slots=True)
class GossipSettings:
    period_s: float = 5.0
    """Pause between two exchanges. News reaches everybody after about log2(N) + 4 of them; bytes grow as it
    shrinks."""

    jitter: float = 0.2
    """Each pause is drawn from period_s * (1 +- jitter), so that peers started together do not talk in
    step."""

    silence_s: float = 180.0
    """How old a member's last word may be before it is forgotten. It must exceed the time that news takes:
    period_s * (log2(N) + 4), 90 s for 10,000 peers. Longer survives longer partitions, and counts the dead
    for longer."""

    renew_s: float = 45.0
    """How often a peer repeats its word if nothing about it changes. With the time that news takes it must
    stay below silence_s, or the living are forgotten; shorter means more that is new in every message."""

    zones_max: int = 256
    """Most zones remembered, each up to 6 KiB. Beyond that the zone that was silent longest makes room;
    never ours."""


@dataclass(frozen=True, slots=True)
class GossipTick:
    """Time for an exchange."""


@dataclass(frozen=True, slots=True)
class DenylistChanged:
    """A newer denylist arrived. The shell keeps its bytes, drops connections of the denied, tells
    `RecordCheck`."""

    denylist: Denylist


GOSSIP_EVENTS = (GossipTick,)
GOSSIP_MESSAGES = (Digests, DigestsReply, DenylistNews)

_VERSION_MAX = (1 << 64) - 1
_JITTER_S = 1.0
"""Two ages of one word that differ by less are one: messages take their time, and copying costs ours."""


class Gossip:
    """One peer's part in it. `pick` gives a random known contact, or None; `read_denylist` verifies (or
    raises)."""

    def __init__(
        self,
        me: Contact,
        *,
        pick: Callable[[], Contact | None],
        read_denylist: Callable[[bytes], Denylist],
        rng: Random,
        settings: GossipSettings | None = None,
        denylist: Denylist = NOBODY,
    ) -> None:
        self._me = me
        self._pick = pick
        self._read_denylist = read_denylist
        self._rng = rng
        self._settings = settings or GossipSettings()
        self._zones: dict[str, ZoneDigest] = {me.zone: ZoneDigest()}
        self._turn = 0
        self._version = 0
        self._slots = self._slots_used = 0
        self._is_scheduler = False
        self._said: tuple[int, int, bool] | None = None
        self._renew_at = 0.0
        self.denylist = denylist

    def report(self, *, slots: int, slots_used: int, is_scheduler: bool) -> None:
        """What we shall say of ourselves from the next exchange on."""
        self._slots, self._slots_used, self._is_scheduler = slots, slots_used, is_scheduler

    def deny(self, denylist: Denylist) -> Effects:
        """Take a list that was verified, from the CLI or from disk, and spread it if it is newer than
        ours."""
        newest = self.denylist.merge(denylist)
        if newest is self.denylist:
            return []
        self.denylist = newest
        return [DenylistChanged(newest)]

    def start(self, now: float) -> Effects:
        # Anywhere in the first period: peers started together spread over it.
        return [Later(now + self._rng.uniform(0.0, self._settings.period_s), GossipTick())]

    def totals(self, now: float) -> dict[str, ZoneTotals]:
        """What we know of every zone, by name."""
        self._forget_silent(now)
        return {zone: self._zones[zone].totals() for zone in sorted(self._zones) if self._zones[zone]}

    def wake(self, event: Any, now: float) -> Effects:
        if not isinstance(event, GossipTick):
            raise TypeError(f"{type(event).__name__} is not an event of gossip")
        spread = self._settings.jitter
        pause_s = self._settings.period_s * self._rng.uniform(1.0 - spread, 1.0 + spread)
        effects: Effects = [Later(now + pause_s, GossipTick())]
        self._speak_for_ourselves(now)
        self._forget_silent(now)
        contact = self._pick()
        if contact is not None:
            digests = tuple(self._words(zone) for zone in self._zones_in_turn(ZONES_MAX))
            effects.append(Send(contact, Digests(self.denylist.version, _clock(now), digests)))
        return effects

    def receive(self, sender: Contact, message: Any, now: float) -> Effects:
        match message:
            case Digests():
                news = self._news_for(message.digests)
                reply = DigestsReply(self.denylist.version, _clock(now), news)
                self._learn(message, now)
                return [Send(sender, reply), *self._share_denylist(sender, message.denylist_version)]
            case DigestsReply():
                self._learn(message, now)
                return self._share_denylist(sender, message.denylist_version)
            case DenylistNews():
                return self._on_denylist(sender, message)
            case _:
                raise TypeError(f"{type(message).__name__} is not a message of gossip")

    def _share_denylist(self, to: Contact, version: int) -> Effects:
        return [Send(to, DenylistNews(self.denylist.raw))] if version < self.denylist.version else []

    def _on_denylist(self, sender: Contact, message: DenylistNews) -> Effects:
        if message.raw == self.denylist.raw:
            return []  # two peers told us at once: no need to verify it again
        try:
            return self.deny(self._read_denylist(message.raw))
        except DenylistError as error:
            return [Refused(sender.peer, error.reason)]

    def _speak_for_ourselves(self, now: float) -> None:
        """Give our word, if it is another than before or has grown old."""
        word = (self._slots, self._slots_used, self._is_scheduler)
        if word == self._said and now < self._renew_at:
            return
        self._said, self._renew_at = word, now + self._settings.renew_s
        # The time in ms grows over restarts by itself; one more than before, should the clock be set back.
        self._version = min(max(self._version + 1, int(now * 1000)), _VERSION_MAX)
        self._zones[self._me.zone].add(Member(self._me.peer, *word, self._version, now))

    def _forget_silent(self, now: float) -> None:
        said_s = now - self._settings.silence_s
        for digest in self._zones.values():
            digest.forget_older(said_s)
        for zone in [zone for zone, digest in self._zones.items() if not digest and zone != self._me.zone]:
            del self._zones[zone]

    def _zones_in_turn(self, most: int) -> list[str]:
        """Our own zone, and the others by turns. Zones without a word are left out."""
        others = [zone for zone in self._zones if zone != self._me.zone]
        chosen = [self._me.zone] if self._zones[self._me.zone] else []
        room = min(most - len(chosen), len(others))
        if room:
            at = self._turn % len(others)
            chosen += (others[at:] + others[:at])[:room]
            self._turn = at + room
        return chosen

    def _words(self, zone: str) -> ZoneWords:
        return ZoneWords(zone, self._zones[zone].words())

    def _news_for(self, digests: Iterable[ZoneWords]) -> tuple[ZoneWords, ...]:
        """What the sender did not know: newer words in its zones, then zones that it did not speak of."""
        replies = []
        told = set()
        for theirs in digests:
            told.add(theirs.zone)
            ours = self._zones.get(theirs.zone)
            if ours is not None:
                versions = {member.peer: member.version for member in theirs.members}
                newer = tuple(it for it in ours.words() if versions.get(it.peer, -1) < it.version)
                if newer:
                    replies.append(ZoneWords(theirs.zone, newer))
        room = ZONES_MAX - len(replies)
        rest = [zone for zone in self._zones_in_turn(room) if zone not in told] if room else []
        return (*replies, *map(self._words, rest))

    def _learn(self, message: Digests | DigestsReply, now: float) -> None:
        oldest_s = now - self._settings.silence_s
        ahead_s = message.sent_s - now
        for theirs in message.digests:
            ours = self._zones.get(theirs.zone)
            if ours is None:
                if not theirs.members:
                    continue
                ours = self._new_zone(theirs.zone)
            known_words = ours.members
            for word in theirs.members:
                said_s = word.said_s - ahead_s
                known = known_words.get(word.peer)
                if known is not None and _is_stale(word.version, said_s, known):
                    continue  # most of what gossip brings
                if word.peer == self._me.peer:
                    # Somebody has a newer word of ours than we gave: our next one shall be above it.
                    self._version = max(self._version, word.version)
                    self._said = None
                elif oldest_s <= said_s <= now + _JITTER_S:  # nobody speaks from the future
                    slots, used, is_scheduler = word.slots, word.slots_used, word.is_scheduler
                    ours.add(Member(word.peer, slots, used, is_scheduler, word.version, said_s))

    def _new_zone(self, zone: str) -> ZoneDigest:
        if len(self._zones) >= self._settings.zones_max:
            others = [it for it in self._zones if it != self._me.zone]
            del self._zones[min(others, key=self._last_word_s)]
        self._zones[zone] = digest = ZoneDigest()
        return digest

    def _last_word_s(self, zone: str) -> float:
        return max((word.said_s for word in self._zones[zone].words()), default=0.0)


def _is_stale(version: int, said_s: float, known: Member) -> bool:
    return version < known.version or (version == known.version and said_s > known.said_s - _JITTER_S)


def _clock(now: float) -> float:
    return max(now, 0.0)
