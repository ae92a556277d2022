"""Put and get: find the holders of a key, then ask them to keep a record, or for what they keep.

A search looks up the k peers nearest to the key. A get takes records on the way, from each peer that it asks, and
ends with the lookup. A put then asks the k nearest, ourselves among them, to keep its record.

Promises: a search ends, in one `Answer` (a renewal in one `Renewed`), whoever is silent and whatever contacts are
invented; a put says how many copies were made; a get returns no record that fails the check.

Pure: requests, replies and silences come in, effects go out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from overlay.contact import Contact
from overlay.directory_asking import Ask, Asks
from overlay.directory_holding import Holding
from overlay.directory_results import Listing, Renewed, Stored
from overlay.directory_site import Site
from overlay.effects import Answer, Effects, Later, Refused
from overlay.ids import Key, PeerId
from overlay.lookup import Lookup
from overlay.messages.storing import Fetch, FetchReply, Store
from overlay.records import Record

_LOWEST, _HIGHEST = Key(0), Key((1 << 160) - 1)


@dataclass(frozen=True, slots=True)
class Renew:
    key: Key
    sequence: int


@dataclass(slots=True, eq=False)
class Search:
    """One put or get under way: first it looks for holders, then a put asks them to keep its record."""

    lookup: Lookup
    request: int | None
    """None for a renewal: nobody waits for an answer."""
    asks_left: int
    record: Record | None = None
    is_looking: bool = True
    found: dict[PeerId, Record] = field(default_factory=dict)
    heard: set[PeerId] = field(default_factory=set)
    waiting: int = 0
    """Pages or stores still to be answered."""
    copies: int = 0
    wanted: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    @property
    def stored(self) -> Stored:
        return Stored(self.copies, self.wanted, dict(sorted(self.refused.items())))


class Searches:
    __slots__ = ("_asks", "_holding", "_site", "_under_way")

    def __init__(self, site: Site, holding: Holding, asks: Asks) -> None:
        self._site = site
        self._holding = holding
        self._asks = asks
        self._under_way: set[Search] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def start(self, key: Key, request: int | None, now: float, record: Record | None) -> Effects:
        """Put `record`, or get what there is if there is none."""
        settings = self._site.settings
        seeds = self._site.nearest(key, settings.copies)
        lookup = Lookup(key, width=settings.copies, me=self._site.me.peer, seeds=seeds)
        search = Search(lookup, request, asks_left=settings.asks_max, record=record)
        if len(self._under_way) >= settings.searches_max:
            search.refuse("busy")
            return self._finish(search, now)
        self._under_way.add(search)
        if record is None:
            search.found = {it.publisher: it for it in self._holding.shelf.under(key) if it.expires_s > now}
        return self._go_on(search, now)

    def is_moot(self, ask: Ask) -> bool:
        """Has the lookup ended without this reply, because nearer peers gave theirs?"""
        return isinstance(ask.message, Fetch) and not ask.job.is_looking

    def on_reply(self, ask: Ask, reply: Any, now: float) -> Effects:
        search: Search = ask.job
        if isinstance(reply, FetchReply):
            return self._on_fetched(ask, search, reply, now)
        if reply.refused:
            search.refuse(reply.refused[0].reason)
        else:
            search.copies += 1
        return self._on_store_ended(search, now)

    def on_silence(self, ask: Ask, now: float) -> Effects:
        search: Search = ask.job
        if isinstance(ask.message, Store):
            search.refuse("silent")
            return self._on_store_ended(search, now)
        if ask.is_page:
            search.waiting -= 1
        else:
            search.lookup.on_silent(ask.to.peer)
        return self._go_on(search, now)

    # Looking for holders

    def _go_on(self, search: Search, now: float) -> Effects:
        """Ask whom the lookup names; when it is done, store or answer."""
        effects: Effects = []
        wants_records = search.record is None
        for contact in search.lookup.next():
            if search.asks_left <= 0:
                search.lookup.on_silent(contact.peer)
                continue
            search.asks_left -= 1
            question = Fetch(self._site.nonce(), search.lookup.key, wants_records, _LOWEST)
            effects += self._asks.ask(Ask(contact, question, self, search), now)
        if effects or search.waiting:
            return effects
        is_spent = search.asks_left <= 0 and not self._asks.is_out_for(search)
        if not (search.lookup.is_done or is_spent):
            return []
        search.is_looking = False
        return self._store_at_holders(search, search.record, now) if search.record else self._finish(search, now)

    def _on_fetched(self, ask: Ask, search: Search, reply: FetchReply, now: float) -> Effects:
        effects = self._take(search, ask.to, reply.records, now) if search.record is None else []
        if ask.is_page:
            search.waiting -= 1
        else:
            search.heard.add(ask.to.peer)
            search.lookup.on_found(ask.to.peer, reply.contacts[: 2 * self._site.settings.copies])
        if reply.has_more and reply.records and search.record is None and search.asks_left > 0:
            effects += self._ask_for_next_page(ask, search, reply.records[-1].publisher, now)
        return effects + self._go_on(search, now)

    def _ask_for_next_page(self, ask: Ask, search: Search, last: PeerId, now: float) -> Effects:
        assert isinstance(ask.message, Fetch)
        if not ask.message.first <= last < _HIGHEST:
            return []  # the page does not move on
        search.asks_left -= 1
        search.waiting += 1
        question = Fetch(self._site.nonce(), search.lookup.key, True, Key(last + 1))
        return self._asks.ask(Ask(ask.to, question, self, search, is_page=True), now)

    def _take(self, search: Search, sender: Contact, records: Iterable[Record], now: float) -> Effects:
        """The newest of each publisher. Holders repeat each other, so only what is news is verified."""
        effects: Effects = []
        for record in records:
            known = search.found.get(record.publisher)
            if known is not None and record.sequence <= known.sequence:
                continue
            reason = "wrong-key" if record.key != search.lookup.key else self._site.check(record, now)
            if reason is None:
                search.found[record.publisher] = record
            elif reason != "expired":  # the holder's clock is a little behind ours: nobody's fault
                effects.append(Refused(sender.peer, reason))
        return effects

    # Storing, and the end

    def _store_at_holders(self, search: Search, record: Record, now: float) -> Effects:
        me = self._site.me
        by_distance = sorted([me, *search.lookup.nearest()], key=lambda it: it.peer ^ record.key)
        holders = by_distance[: self._site.settings.copies]
        search.wanted = len(holders)
        effects: Effects = []
        for holder in holders:
            if holder is me:
                reason = self._holding.keep(record, now)
                search.copies += reason is None
                if reason:
                    search.refuse(reason)
                continue
            search.waiting += 1
            message = Store(self._site.nonce(), False, (record,))
            effects += self._asks.ask(Ask(holder, message, self, search), now)
        effects += self._holding.arm_sweep(now)
        return effects if search.waiting else effects + self._finish(search, now)

    def _on_store_ended(self, search: Search, now: float) -> Effects:
        search.waiting -= 1
        return [] if search.waiting else self._finish(search, now)

    def _finish(self, search: Search, now: float) -> Effects:
        self._under_way.discard(search)
        record = search.record
        if record is None:
            assert search.request is not None
            alive = [it for it in search.found.values() if not it.is_withdrawn and it.expires_s > now]
            alive.sort(key=lambda it: it.publisher)
            return [Answer(search.request, Listing(tuple(alive), holders=len(search.heard)))]
        stored = search.stored
        done = Renewed(record.key, stored) if search.request is None else Answer(search.request, stored)
        if not stored.is_stored and record.publisher == self._site.me.peer:
            return [done, Later(now + self._site.settings.retry_s, Renew(record.key, record.sequence))]
        return [done]
