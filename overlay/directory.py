"""Find what is offered by name: signed records, kept on the k peers nearest to their key.

Nobody is in charge of the directory. A publisher looks up the peers nearest to the record's key and asks
each to keep it; whoever asks looks up the same peers and takes the newest record of each publisher from what
they say. Three things keep it true while peers come and go:

    renewal     a publisher renews its record at a third of its TTL, under a higher sequence
    hand-over   when the peers around a holder change, the two holders nearest to a key push its records to
                whoever is now among the k; a peer that leaves pushes all it holds
    expiry      what nobody renews is gone after its TTL, at every holder by itself

Promises. A record that fails the check is neither kept nor returned, and the refusal is counted with its
reason. A put says how many copies were made; none is a failure. What was withdrawn does not come back: its
tombstone has the higher sequence, is renewed as the record was, and lives until nothing older can be alive.
With no records and no requests the directory sets no timer and sends nothing.

Records never decide who owns an app: two publishers of one name are both returned.

The work is done in four places, one idea each: directory_asking (questions, again if need be), directory_searching
(put and get), directory_holding (what a holder does) and directory_hand_over. Here is what we publish ourselves.

Pure: `receive`, `wake`, `leaves_changed` and the requests return effects; a request ends in one `Answer`.
Rejected: kademlia's `set`, which says True when every store failed; caching on the way (a withdrawn record
would live on in caches that nobody knows of); all k holders pushing at every change (k times the bytes for
nothing).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

from overlay.contact import Contact
from overlay.directory_asking import Asks, AskTimeout
from overlay.directory_hand_over import HandOver, LeavesSettled
from overlay.directory_holding import Holding, Sweep
from overlay.directory_results import Listing, Renewed, Stored
from overlay.directory_searching import Renew, Searches
from overlay.directory_settings import DirectorySettings
from overlay.directory_site import Site
from overlay.effects import Effects, Later
from overlay.ids import Key, PeerId
from overlay.messages.storing import Fetch, FetchReply, Store, StoreReply
from overlay.records import TTL_S_MAX, TTL_S_MIN, Record, draft, record_key

__all__ = ["DIRECTORY_EVENTS", "DIRECTORY_MESSAGES", "Directory", "DirectorySettings", "Listing", "Renewed", "Stored"]

DIRECTORY_EVENTS = (AskTimeout, Renew, Sweep, LeavesSettled)
DIRECTORY_MESSAGES = (Store, StoreReply, Fetch, FetchReply)

_DEFAULTS = DirectorySettings()


class Directory:
    """The directory's share of one peer: its requests, the records that it publishes and those that it
    holds."""

    __slots__ = ("_asks", "_hand_over", "_holding", "_mine", "_searches", "_site")

    def __init__(
        self,
        me: Contact,
        *,
        nearest: Callable[[Key, int], list[Contact]],
        check: Callable[[Record, float], str | None],
        sign: Callable[[Record], Record],
        nonce: Callable[[], int],
        rng: Random,
        settings: DirectorySettings = _DEFAULTS,
    ) -> None:
        self._site = Site(me, nearest, check, sign, nonce, rng, settings)
        self._asks = Asks(settings)
        self._holding = Holding(self._site)
        self._mine: dict[Key, tuple[Record, float]] = {}
        """What we publish, and until when some version of it may be alive."""
        # Most peers never ask for anything and hold nothing: these two come when they are needed.
        self._searches: Searches | None = None
        self._hand_over: HandOver | None = None

    @property
    def is_idle(self) -> bool:
        """Are we waiting for nobody?"""
        return not (len(self._asks) or self._searches)

    # What a caller may ask

    def publish(
        self,
        kind: str,
        name: str,
        value: bytes,
        request: int | None,
        now: float,
        *,
        ttl_s: float | None = None,
    ) -> Effects:
        """Offer `value` under this kind and name, and go on offering it. Answers `Stored`."""
        ttl_s = self._site.settings.ttl_s if ttl_s is None else ttl_s
        return self.put(self._site.sign(self._draft(kind, name, value, now, ttl_s=ttl_s)), request, now)

    def put(self, record: Record, request: int | None, now: float) -> Effects:
        """Store a signed record; if it is our own, keep it alive until `withdraw`. Answers `Stored`."""
        effects: Effects = []
        if record.publisher == self._site.me.peer:
            _, alive_until_s = self._mine.get(record.key, (record, 0.0))
            self._mine[record.key] = (record, max(alive_until_s, record.expires_s))
            pause_s = record.ttl_s / 3 * self._site.rng.uniform(0.9, 1.0)  # not all in step
            effects.append(Later(now + pause_s, Renew(record.key, record.sequence)))
        return effects + self._searching.start(record.key, request, now, record)

    def withdraw(self, kind: str, name: str, request: int | None, now: float) -> Effects:
        """Offer it no longer. Answers `Stored`: how many holders know by now."""
        # Not published in this life of ours: then an earlier one may have, with the longest TTL there is.
        _, alive_until_s = self._mine.get(record_key(kind, name), (None, now + TTL_S_MAX))
        ttl_s = min(max(alive_until_s - now, TTL_S_MIN), TTL_S_MAX)
        blank = self._draft(kind, name, b"", now, ttl_s=ttl_s)
        return self.put(self._site.sign(replace(blank, is_withdrawn=True)), request, now)

    def get(self, key: Key, request: int, now: float) -> Effects:
        """Who offers what under this key (`records.record_key`)? Answers `Listing`."""
        return self._searching.start(key, request, now, None)

    def held(self, now: float) -> list[Record]:
        """What we hold for the cluster, tombstones included."""
        return [record for record in self._holding.shelf if record.expires_s > now]

    def drop_where(self, is_bad: Callable[[Record], bool]) -> int:
        """Drop what we hold of the revoked. Returns how many records that were."""
        return self._holding.drop_where(is_bad)

    # What happens to us

    def receive(self, sender: Contact, message: Any, now: float) -> Effects:
        match message:
            case Store():
                return self._holding.on_store(sender, message, now)
            case Fetch():
                return self._holding.on_fetch(sender, message, now)
            case StoreReply() | FetchReply():
                return self._asks.on_reply(sender, message, now)
            case _:
                raise TypeError(f"{type(message).__name__} is not a message of the directory")

    def wake(self, event: Any, now: float) -> Effects:
        match event:
            case AskTimeout():
                return self._asks.on_timeout(event, now)
            case Renew():
                return self._renew(event, now)
            case Sweep():
                return self._holding.sweep(now)
            case LeavesSettled():
                return self._handing_over.settled(now)
            case _:
                raise TypeError(f"{type(event).__name__} is not an event of the directory")

    def leaves_changed(self, gained: Iterable[Contact], lost: Iterable[PeerId], now: float) -> Effects:
        """Peers around us came or went: soon, push to whoever is among the k nearest since."""
        return self._handing_over.leaves_changed(gained, lost, now) if len(self._holding.shelf) else []

    def leave(self, now: float) -> Effects:
        """We go: hand on all that we hold, at once, and renew nothing. What we offer should be withdrawn
        before."""
        self._mine.clear()
        return self._handing_over.leave(now)

    @property
    def _searching(self) -> Searches:
        if self._searches is None:
            self._searches = Searches(self._site, self._holding, self._asks)
        return self._searches

    @property
    def _handing_over(self) -> HandOver:
        if self._hand_over is None:
            self._hand_over = HandOver(self._site, self._holding.shelf, self._asks)
        return self._hand_over

    # Renewing what we publish

    def _draft(self, kind: str, name: str, value: bytes, now: float, *, ttl_s: float) -> Record:
        blank = draft(kind, name, publisher=self._site.me.peer, value=value, now=now, ttl_s=ttl_s)
        before = self._mine.get(blank.key)
        return replace(blank, sequence=max(blank.sequence, before[0].sequence + 1)) if before else blank

    def _renew(self, event: Renew, now: float) -> Effects:
        mine = self._mine.get(event.key)
        if mine is None or mine[0].sequence != event.sequence:
            return []
        record, alive_until_s = mine
        ttl_s = record.ttl_s
        if record.is_withdrawn:
            ttl_s = alive_until_s - now
            if ttl_s <= TTL_S_MIN:  # the last tombstone that we published outlives all that it withdrew
                del self._mine[event.key]
                return []
        fresh = self._draft(record.kind, record.name, record.value, now, ttl_s=ttl_s)
        return self.put(self._site.sign(replace(fresh, is_withdrawn=record.is_withdrawn)), None, now)
