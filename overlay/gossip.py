"""Spread what every zone has to offer, a little at a time, to everybody.

Every period a peer picks a random contact, tells it what it knows of the zones and hears what it did not
know: one message each way. News doubles its audience with every period at least, so it is everywhere after
O(log N) of them, and a lost message costs nothing but time. What is told is digests (digest.py), which may
be told twice.

Hardly anything that a peer knows is news to another, so words are told in two ways, and neither repeats them all:

    push    a peer tells each word once after it was learned, and its own every time
    pull    it says which version of every word it has; the reply brings those that it lacks

Pushing gets news started; pulling ends it, for it reaches whom no push did, and makes up for lost messages.

The denylist travels along: each message says its version, and whoever hears of an older one sends his list.

Promises: one pair of messages a period, whatever the number of peers; a message fits 64 KiB, for it holds
at most 16 zones, ours first, the others by turns; memory is bounded by the number of zones. A member that
falls silent is forgotten everywhere after `silence_s`.

What gossip says is not signed: an admitted peer may lie about itself and others, for as long as it goes on.
It guides choices; nothing is decided by it alone. The denylist is signed, and decides.

Pure: `receive` and `wake` return effects. Rejected: flooding (N messages a word); a tree (breaks at each
crash); telling all words every time (the receiver looks at hundreds that it knows); one hash of each zone (words are
renewed about as often as news takes to arrive, so no two peers ever have the same).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from overlay.contact import Contact
from overlay.denylist import NOBODY, Denylist, DenylistError
from overlay.digest import Member, ZoneDigest, ZoneTotals
from overlay.effects import Effects, Later, Refused, Send
from overlay.messages.gossiping import (
    NEWS_MAX,
    OTHER_ZONES_MAX,
    ZONES_MAX,
    DenylistNews,
    Digests,
    DigestsReply,
    ZoneGist,
    ZoneWords,
)


@dataclass(frozen=True, slots=True)
class GossipSettings:
    period_s: float = 5.0
    """Pause between two exchanges. News reaches everybody after about log2(N) + 4 of them; bytes grow as it
    shrinks."""

    jitter: float = 0.2
    """Each pause is drawn from period_s * (1 +- jitter), so that peers started together do not talk in
    step."""

    push_s: float = 10.0
    """How long after it was said a word is pushed by whoever learns it. Pushing helps while few know the word; later
    most who are told know it, and who does not will ask. With 0, news takes a few periods more."""

    silence_s: float = 180.0
    """How old a member's last word may be before it is forgotten. It must exceed the time that news takes:
    period_s * (log2(N) + 4), 90 s for 10,000 peers. Longer survives longer partitions, and counts the dead
    for longer."""

    renew_s: float = 60.0
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

_DEFAULTS = GossipSettings()
_VERSION_MAX = (1 << 64) - 1
_CLOCKS_AGREE_S = 1.0
"""Clocks that differ by less are one: messages take their time, and dating every word anew costs ours."""


class Gossip:
    """One peer's part in it. `pick` gives a random known contact, or None; `read_denylist` verifies (or
    raises)."""

    __slots__ = (
        "_is_scheduler",
        "_me",
        "_news",
        "_pick",
        "_read_denylist",
        "_renew_at",
        "_rng",
        "_said",
        "_settings",
        "_slots",
        "_slots_used",
        "_turn",
        "_version",
        "_zones",
        "denylist",
    )

    def __init__(
        self,
        me: Contact,
        *,
        pick: Callable[[], Contact | None],
        read_denylist: Callable[[bytes], Denylist],
        rng: Random,
        settings: GossipSettings = _DEFAULTS,
        denylist: Denylist = NOBODY,
    ) -> None:
        self._me = me
        self._pick = pick
        self._read_denylist = read_denylist
        self._rng = rng
        self._settings = settings
        self._zones: dict[str, ZoneDigest] = {}
        self._news: dict[str, list[Member]] = {}
        """What we have learned of each zone since we last told of it: at most `NEWS_MAX` words."""
        self._turn = 0
        self._version = 0
        self._slots = self._slots_used = 0
        self._is_scheduler = False
        self._said: Member | None = None
        self._renew_at = 0.0
        self.denylist = denylist

    def report(self, *, slots: int, slots_used: int, is_scheduler: bool) -> None:
        """What we shall say of ourselves from the next exchange on."""
        if (slots, slots_used, is_scheduler) != (self._slots, self._slots_used, self._is_scheduler):
            self._slots, self._slots_used, self._is_scheduler = slots, slots_used, is_scheduler
            self._said = None

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
        return {zone: self._zones[zone].totals() for zone in sorted(self._zones)}

    def our_zone(self, now: float) -> ZoneDigest:
        """What we know of our own zone; we are in it before we have told anybody."""
        self._speak_for_ourselves(now)
        self._forget_silent(now)
        return self._zone(self._me.zone)

    def wake(self, event: Any, now: float) -> Effects:
        if not isinstance(event, GossipTick):
            raise TypeError(f"{type(event).__name__} is not an event of gossip")
        spread = self._settings.jitter
        pause_s = self._settings.period_s * self._rng.uniform(1.0 - spread, 1.0 + spread)
        effects: Effects = [Later(now + pause_s, event)]
        our_word = self._speak_for_ourselves(now)
        self._forget_silent(now)
        contact = self._pick()
        if contact is not None:
            told, others = self._zones_in_turn()
            gists = tuple([self._gist(zone, our_word) for zone in told])
            effects.append(Send(contact, Digests(self.denylist.version, _clock(now), gists, others)))
        return effects

    def receive(self, sender: Contact, message: Any, now: float) -> Effects:
        match message:
            case Digests():
                self._learn(message, now)
                reply = DigestsReply(self.denylist.version, _clock(now), self._lacking(message))
                return [Send(sender, reply), *self._share_denylist(sender, message.denylist_version)]
            case DigestsReply():
                self._learn(message, now)
                return self._share_denylist(sender, message.denylist_version)
            case DenylistNews():
                return self._on_denylist(sender, message)
            case _:
                raise TypeError(f"{type(message).__name__} is not a message of gossip")

    # The denylist

    def _share_denylist(self, to: Contact, version: int) -> Effects:
        return [Send(to, DenylistNews(self.denylist.raw))] if version < self.denylist.version else []

    def _on_denylist(self, sender: Contact, message: DenylistNews) -> Effects:
        if message.raw == self.denylist.raw:
            return []  # two peers told us at once: no need to verify it again
        try:
            return self.deny(self._read_denylist(message.raw))
        except DenylistError as error:
            return [Refused(sender.peer, error.reason)]

    # Telling

    def _speak_for_ourselves(self, now: float) -> Member:
        """Our word: the last one, unless there is another to say or it has grown old."""
        if self._said is not None and now < self._renew_at:
            return self._said
        self._renew_at = now + self._settings.renew_s
        # The time in ms grows over restarts by itself; one more than before, should the clock be set back.
        self._version = min(max(self._version + 1, int(now * 1000)), _VERSION_MAX)
        self._said = Member(self._me.peer, self._slots, self._slots_used, self._is_scheduler, self._version, now)
        self._zone(self._me.zone).add(self._said)
        return self._said

    def _zones_in_turn(self) -> tuple[list[str], tuple[str, ...]]:
        """Which zones to tell of: our own, and the others by turns. And those whose turn it is not."""
        zones = list(self._zones)
        if len(zones) <= ZONES_MAX:
            return zones, ()
        zones.remove(self._me.zone)
        at, room = self._turn % len(zones), ZONES_MAX - 1
        self._turn = at + room
        zones = zones[at:] + zones[:at]
        return [self._me.zone, *zones[:room]], tuple(zones[room : room + OTHER_ZONES_MAX])

    def _gist(self, zone: str, our_word: Member) -> ZoneGist:
        digest = self._zones[zone]
        news = tuple(self._news.pop(zone, ())) if self._news else ()
        if zone == self._me.zone:
            # Every time: a peer whom nobody happens to ask must be heard of all the same.
            news = (our_word, *news[: NEWS_MAX - 1])
        return ZoneGist(zone, digest.ranks, digest.versions, news)

    def _lacking(self, message: Digests) -> tuple[ZoneWords, ...]:
        """What the asker did not know: newer words in its zones, then zones that it has not heard of."""
        replies = []
        others = len(self._zones)
        for it in message.zones:
            ours = self._zones.get(it.zone)
            if ours is not None:
                others -= 1
                newer = ours.newer_than(it.ranks, it.versions)
                if newer:
                    replies.append(ZoneWords(it.zone, newer))
        if others:
            heard_of = {it.zone for it in message.zones}.union(message.other_zones)
            strange = [zone for zone in self._zones if zone not in heard_of][: ZONES_MAX - len(replies)]
            replies += [ZoneWords(zone, self._zones[zone].words()) for zone in strange]
        return tuple(replies)

    # Learning and forgetting

    def _learn(self, message: Digests | DigestsReply, now: float) -> None:
        """Take what is news."""
        me, settings = self._me.peer, self._settings
        oldest_s, young_s, newest_s = now - settings.silence_s, now - settings.push_s, now + _CLOCKS_AGREE_S
        ahead_s = message.sent_s - now
        is_near = -_CLOCKS_AGREE_S <= ahead_s <= _CLOCKS_AGREE_S
        for theirs in message.zones:
            if not theirs.words:
                continue
            ours = self._zone(theirs.zone)
            for told in theirs.words:
                if told.peer == me:
                    self._hear_of_ourselves(told.version)
                    continue
                word = told if is_near else replace(told, said_s=told.said_s - ahead_s)
                # Nobody speaks from the future.
                if oldest_s <= word.said_s <= newest_s and ours.add(word) and word.said_s > young_s:
                    self._push_on(theirs.zone, word)

    def _hear_of_ourselves(self, version: int) -> None:
        """If somebody has a newer word of ours than we gave, our next one shall be above it."""
        if version > self._version:
            self._version = version
            self._said = None

    def _push_on(self, zone: str, word: Member) -> None:
        news = self._news.setdefault(zone, [])
        if len(news) < NEWS_MAX:
            news.append(word)

    def _forget_silent(self, now: float) -> None:
        said_s = now - self._settings.silence_s
        due = [
            (zone, it)
            for zone, it in self._zones.items()
            if it.members.oldest_s < said_s or it.schedulers.oldest_s < said_s
        ]
        for zone, digest in due:
            digest.forget_older(said_s)
            if not digest:
                self._drop(zone)

    def _drop(self, zone: str) -> None:
        del self._zones[zone]
        self._news.pop(zone, None)

    def _zone(self, zone: str) -> ZoneDigest:
        digest = self._zones.get(zone)
        if digest is None:
            if len(self._zones) >= self._settings.zones_max:
                self._drop(min((it for it in self._zones if it != self._me.zone), key=self._last_word_s))
            self._zones[zone] = digest = ZoneDigest()
        return digest

    def _last_word_s(self, zone: str) -> float:
        return max((word.said_s for word in self._zones[zone].words()), default=0.0)


def _clock(now: float) -> float:
    return max(now, 0.0)
