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

Pure: `receive`, `wake`, `leaves_changed` and the requests return effects; a request ends in one `Answer`.
Rejected: kademlia's `set`, which says True when every store failed; caching on the way (a withdrawn record
would live on in caches that nobody knows of); all k holders pushing at every change (k times the bytes for
nothing).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from overlay.contact import Contact
from overlay.effects import Answer, Effects, Later, Refused, Send
from overlay.ids import Key, PeerId
from overlay.lookup import Lookup
from overlay.messages.storing import (
    RECORDS_BYTES_MAX,
    RECORDS_MAX,
    Fetch,
    FetchReply,
    Refusal,
    Store,
    StoreReply,
)
from overlay.records import TTL_S_MAX, TTL_S_MIN, Record, draft, record_key
from overlay.shelf import Shelf


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    copies: int = 8
    """Holders of each record (k). All of them must die between two hand-overs before a record is missed
    until its next renewal. Every put and every get costs about this many messages, and as many replies."""

    ttl_s: float = 600.0
    """How long a record lives if its publisher falls silent. It is renewed every ttl_s / 3, so two renewals
    in a row may fail. Shorter notices dead publishers sooner and costs 3 * copies / ttl_s messages a second
    for each record."""

    ask_timeout_s: float = 1.0
    """How long a holder may take to answer before it is asked again."""

    ask_attempts: int = 3
    """Questions to one holder before it counts as silent: at 20 % loss of messages, 5 in 100 live ones do."""

    asks_max: int = 96
    """Most questions of one request, so that peers who invent ever nearer contacts cannot keep it running. A
    lookup among 10,000 honest peers needs about 20."""

    searches_max: int = 64
    """Most requests under way at once. More are answered at once as failed, with the reason "busy"."""

    retry_s: float = 10.0
    """When to try again if a record of ours could be stored nowhere."""

    settle_s: float = 1.0
    """How long to collect changes of the leaf set before handing over. Longer merges more of them into one
    pass over our records; until then a new holder does not know what it should hold."""

    pushers: int = 2
    """How many of a key's holders hand its records over. With one, its death at that moment costs a copy
    until the next renewal; each more repeats every byte."""

    records_max: int = 2048
    """Most records that we hold: 2 MiB as they usually are, 13 MiB at worst."""

    per_publisher_max: int = 256
    """Most records of one publisher that we hold, so that one certificate cannot fill a holder."""

    per_key_max: int = 256
    """Most publishers of one name, such as the devices that offer the source "readings"."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What came of a put: copies made, holders that should have one, and why some have not."""

    copies: int
    wanted: int
    refused: dict[str, int]
    """How often each reason was given; "silent" is a holder that did not answer."""

    @property
    def is_stored(self) -> bool:
        return self.copies > 0


@dataclass(frozen=True, slots=True)
class Listing:
    """What came of a get: the newest record of every publisher, by publisher, and how many holders were
    heard.

    No record and `holders` of zero means that nobody answered, not that nothing is offered.
    """

    records: tuple[Record, ...]
    holders: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """An observation: a record of ours was published again, by itself."""

    key: Key
    stored: Stored


@dataclass(frozen=True, slots=True)
class AskTimeout:
    nonce: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Renew:
    key: Key
    sequence: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Time to drop what has expired."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The leaf set has settled: time to push."""


DIRECTORY_EVENTS = (AskTimeout, Renew, Sweep, HandOver)
DIRECTORY_MESSAGES = (Store, StoreReply, Fetch, FetchReply)

_LOWEST, _HIGHEST = Key(0), Key((1 << 160) - 1)


@dataclass(slots=True, eq=False)
class _Search:
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


@dataclass(slots=True, eq=False)
class _Push:
    """Records on their way to one peer: one message at a time, so that a slow peer is not flooded."""

    to: Contact
    queue: deque[tuple[Key, PeerId]] = field(default_factory=deque)


@dataclass(slots=True)
class _Ask:
    """One question that is out. The same one is sent again if no reply comes."""

    to: Contact
    message: Store | Fetch
    owner: _Search | _Push
    is_page: bool = False
    attempt: int = 1


class Directory:
    """The directory's share of one peer: its requests, the records that it publishes and those that it
    holds."""

    def __init__(
        self,
        me: Contact,
        *,
        nearest: Callable[[Key, int], list[Contact]],
        check: Callable[[Record, float], str | None],
        sign: Callable[[Record], Record],
        nonce: Callable[[], int],
        rng: Random,
        settings: DirectorySettings | None = None,
    ) -> None:
        self._me = me
        self._nearest = nearest
        self._check = check
        self._sign = sign
        self._nonce = nonce
        self._rng = rng
        self._settings = settings = settings or DirectorySettings()
        self._shelf = Shelf(
            me.peer,
            records_max=settings.records_max,
            per_publisher_max=settings.per_publisher_max,
            per_key_max=settings.per_key_max,
        )
        self._mine: dict[Key, tuple[Record, float]] = {}
        """What we publish, and until when some version of it may be alive."""
        self._searches: set[_Search] = set()
        self._asks: dict[int, _Ask] = {}
        self._pushes: dict[PeerId, _Push] = {}
        self._gained: dict[PeerId, Contact] = {}
        self._lost: set[PeerId] = set()
        self._sweeps = False

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
        ttl_s = self._settings.ttl_s if ttl_s is None else ttl_s
        return self.put(self._sign(self._draft(kind, name, value, now, ttl_s=ttl_s)), request, now)

    def put(self, record: Record, request: int | None, now: float) -> Effects:
        """Store a signed record; if it is our own, keep it alive until `withdraw`. Answers `Stored`."""
        effects: Effects = []
        if record.publisher == self._me.peer:
            _, alive_until_s = self._mine.get(record.key, (record, 0.0))
            self._mine[record.key] = (record, max(alive_until_s, record.expires_s))
            pause_s = record.ttl_s / 3 * self._rng.uniform(0.9, 1.0)  # not all in step
            effects.append(Later(now + pause_s, Renew(record.key, record.sequence)))
        return effects + self._search(record.key, request, now, record)

    def withdraw(self, kind: str, name: str, request: int | None, now: float) -> Effects:
        """Offer it no longer. Answers `Stored`: how many holders know by now."""
        # Not published in this life of ours: then an earlier one may have, with the longest TTL there is.
        _, alive_until_s = self._mine.get(record_key(kind, name), (None, now + TTL_S_MAX))
        ttl_s = min(max(alive_until_s - now, TTL_S_MIN), TTL_S_MAX)
        blank = self._draft(kind, name, b"", now, ttl_s=ttl_s)
        return self.put(self._sign(replace(blank, is_withdrawn=True)), request, now)

    def get(self, key: Key, request: int, now: float) -> Effects:
        """Who offers what under this key (`records.record_key`)? Answers `Listing`."""
        return self._search(key, request, now, None)

    def held(self, now: float) -> list[Record]:
        """What we hold for the cluster, tombstones included."""
        return [record for record in self._shelf if record.expires_s > now]

    def drop_where(self, is_bad: Callable[[Record], bool]) -> int:
        """Drop what we hold of the revoked. Returns how many records that were."""
        bad = [(it.key, it.publisher) for it in self._shelf if is_bad(it)]
        for key, publisher in bad:
            self._shelf.drop(key, publisher)
        return len(bad)

    # What happens to us

    def receive(self, sender: Contact, message: Any, now: float) -> Effects:
        match message:
            case Store():
                return self._on_store(sender, message, now)
            case Fetch():
                return self._on_fetch(sender, message, now)
            case StoreReply() | FetchReply():
                return self._on_reply(sender, message, now)
            case _:
                raise TypeError(f"{type(message).__name__} is not a message of the directory")

    def wake(self, event: Any, now: float) -> Effects:
        match event:
            case AskTimeout():
                return self._on_timeout(event, now)
            case Renew():
                return self._renew(event, now)
            case Sweep():
                self._sweeps = False
                self._shelf.expire(now)
                return self._arm_sweep(now)
            case HandOver():
                return self._hand_over(now)
            case _:
                raise TypeError(f"{type(event).__name__} is not an event of the directory")

    def leaves_changed(self, gained: Iterable[Contact], lost: Iterable[PeerId], now: float) -> Effects:
        """Peers around us came or went: soon, push to whoever is among the k nearest since."""
        if not len(self._shelf):
            return []
        is_first = not (self._gained or self._lost)
        for contact in gained:
            self._gained[contact.peer] = contact
            self._lost.discard(contact.peer)
        for peer in lost:
            self._lost.add(peer)
            self._gained.pop(peer, None)
        changed = bool(self._gained or self._lost)
        return [Later(now + self._settings.settle_s, HandOver())] if is_first and changed else []

    def leave(self, now: float) -> Effects:
        """We go: hand on all that we hold, at once, and renew nothing. What we offer should be withdrawn
        before."""
        copies = self._settings.copies
        self._mine.clear()
        queues: dict[PeerId, _Push] = {}
        for key in self._shelf.keys():  # noqa: SIM118  (a Shelf is no dict: it iterates over records)
            others = self._nearest(key, copies)
            if others:
                # The last of the k nearest without us is the one who takes our place.
                heir = others[-1] if len(others) == copies else others[0]
                push = queues.setdefault(heir.peer, _Push(heir))
                push.queue.extend((key, record.publisher) for record in self._shelf.under(key))
        sends: Effects = []
        for push in queues.values():
            while records := self._next_batch(push, now):
                sends.append(Send(push.to, Store(self._nonce(), True, records)))
        return sends

    # Searching

    def _search(self, key: Key, request: int | None, now: float, record: Record | None) -> Effects:
        settings = self._settings
        seeds = self._nearest(key, settings.copies)
        lookup = Lookup(key, width=settings.copies, me=self._me.peer, seeds=seeds)
        search = _Search(lookup, request, asks_left=settings.asks_max, record=record)
        if len(self._searches) >= settings.searches_max:
            search.refuse("busy")
            return self._finish(search, now)
        self._searches.add(search)
        if record is None:
            search.found = {it.publisher: it for it in self._shelf.under(key) if it.expires_s > now}
        return self._go_on(search, now)

    def _go_on(self, search: _Search, now: float) -> Effects:
        """Ask whom the lookup names; when it is done, store or answer."""
        effects: Effects = []
        wants_records = search.record is None
        for contact in search.lookup.next():
            if search.asks_left <= 0:
                search.lookup.on_silent(contact.peer)
                continue
            search.asks_left -= 1
            question = Fetch(self._nonce(), search.lookup.key, wants_records, _LOWEST)
            effects += self._ask(contact, question, search, now)
        if effects or search.waiting:
            return effects
        is_spent = search.asks_left <= 0 and not any(ask.owner is search for ask in self._asks.values())
        if not (search.lookup.is_done or is_spent):
            return []
        search.is_looking = False
        return self._store_at_holders(search, now) if search.record else self._finish(search, now)

    def _store_at_holders(self, search: _Search, now: float) -> Effects:
        record = search.record
        assert record is not None
        by_distance = sorted([self._me, *search.lookup.nearest()], key=lambda it: it.peer ^ record.key)
        holders = by_distance[: self._settings.copies]
        search.wanted = len(holders)
        effects: Effects = []
        for holder in holders:
            if holder is self._me:
                reason = self._keep(record, now)
                search.copies += reason is None
                if reason:
                    search.refuse(reason)
                continue
            search.waiting += 1
            effects += self._ask(holder, Store(self._nonce(), False, (record,)), search, now)
        effects += self._arm_sweep(now)
        return effects if search.waiting else effects + self._finish(search, now)

    def _finish(self, search: _Search, now: float) -> Effects:
        self._searches.discard(search)
        record = search.record
        if record is None:
            assert search.request is not None
            alive = [it for it in search.found.values() if not it.is_withdrawn and it.expires_s > now]
            alive.sort(key=lambda it: it.publisher)
            return [Answer(search.request, Listing(tuple(alive), holders=len(search.heard)))]
        stored = search.stored
        done = Renewed(record.key, stored) if search.request is None else Answer(search.request, stored)
        if not stored.is_stored and record.publisher == self._me.peer:
            return [done, Later(now + self._settings.retry_s, Renew(record.key, record.sequence))]
        return [done]

    # Asking, again if need be

    def _ask(
        self,
        to: Contact,
        message: Store | Fetch,
        owner: _Search | _Push,
        now: float,
        *,
        is_page: bool = False,
    ) -> Effects:
        self._asks[message.nonce] = _Ask(to, message, owner, is_page)
        return [Send(to, message), Later(now + self._settings.ask_timeout_s, AskTimeout(message.nonce, 1))]

    def _on_timeout(self, event: AskTimeout, now: float) -> Effects:
        ask = self._asks.get(event.nonce)
        if ask is None or ask.attempt != event.attempt:
            return []
        if self._is_moot(ask):
            del self._asks[event.nonce]
            return []
        if ask.attempt < self._settings.ask_attempts:
            ask.attempt += 1
            pause_s = self._settings.ask_timeout_s
            return [Send(ask.to, ask.message), Later(now + pause_s, AskTimeout(event.nonce, ask.attempt))]
        del self._asks[event.nonce]
        owner = ask.owner
        if isinstance(owner, _Push):
            # Dead, or soon found to be; then the leaf set changes and names another holder.
            self._pushes.pop(owner.to.peer, None)
            return []
        if isinstance(ask.message, Store):
            owner.refuse("silent")
            return self._on_store_ended(owner, now)
        if ask.is_page:
            owner.waiting -= 1
        else:
            owner.lookup.on_silent(ask.to.peer)
        return self._go_on(owner, now)

    def _is_moot(self, ask: _Ask) -> bool:
        """Has the lookup ended without this reply, because nearer peers gave theirs?"""
        return isinstance(ask.message, Fetch) and isinstance(ask.owner, _Search) and not ask.owner.is_looking

    def _on_reply(self, sender: Contact, reply: StoreReply | FetchReply, now: float) -> Effects:
        ask = self._asks.get(reply.nonce)
        if ask is None:
            return []  # late, or a duplicate
        if ask.to.peer != sender.peer or isinstance(reply, StoreReply) != isinstance(ask.message, Store):
            return [Refused(sender.peer, "not-asked")]
        del self._asks[reply.nonce]
        if self._is_moot(ask):
            return []
        if isinstance(reply, FetchReply):
            assert isinstance(ask.owner, _Search)
            return self._on_fetched(sender, ask, ask.owner, reply, now)
        if isinstance(ask.owner, _Push):
            return self._push_on(ask.owner, now)
        if reply.refused:
            ask.owner.refuse(reply.refused[0].reason)
        else:
            ask.owner.copies += 1
        return self._on_store_ended(ask.owner, now)

    def _on_store_ended(self, search: _Search, now: float) -> Effects:
        search.waiting -= 1
        return [] if search.waiting else self._finish(search, now)

    def _on_fetched(
        self, sender: Contact, ask: _Ask, search: _Search, reply: FetchReply, now: float
    ) -> Effects:
        effects = self._take(search, sender, reply.records, now) if search.record is None else []
        if ask.is_page:
            search.waiting -= 1
        else:
            search.heard.add(sender.peer)
            search.lookup.on_found(sender.peer, reply.contacts[: 2 * self._settings.copies])
        assert isinstance(ask.message, Fetch)
        if reply.has_more and reply.records and search.record is None and search.asks_left > 0:
            last = reply.records[-1].publisher
            if ask.message.first <= last < _HIGHEST:  # else the page does not move on
                search.asks_left -= 1
                search.waiting += 1
                question = Fetch(self._nonce(), search.lookup.key, True, Key(last + 1))
                effects += self._ask(sender, question, search, now, is_page=True)
        return effects + self._go_on(search, now)

    def _take(self, search: _Search, sender: Contact, records: Iterable[Record], now: float) -> Effects:
        """The newest of each publisher. Holders repeat each other, so only what is news is verified."""
        effects: Effects = []
        for record in records:
            known = search.found.get(record.publisher)
            if known is not None and record.sequence <= known.sequence:
                continue
            reason = "wrong-key" if record.key != search.lookup.key else self._check(record, now)
            if reason is None:
                search.found[record.publisher] = record
            elif reason != "expired":  # the holder's clock is a little behind ours: nobody's fault
                effects.append(Refused(sender.peer, reason))
        return effects

    # Holding

    def _on_store(self, sender: Contact, message: Store, now: float) -> Effects:
        effects: Effects = []
        refused = []
        for index, record in enumerate(message.records):
            reason = self._keep(record, now)
            if reason is None:
                continue
            refused.append(Refusal(index, reason))
            if not (message.is_hand_over and reason in ("replayed", "expired")):
                effects.append(Refused(sender.peer, reason))
        return [*effects, Send(sender, StoreReply(message.nonce, tuple(refused))), *self._arm_sweep(now)]

    def _keep(self, record: Record, now: float) -> str | None:
        """Hold `record`, or say why not. What we hold already costs nothing to hold again."""
        old = self._shelf.get(record.key, record.publisher)
        if old is not None and record.sequence <= old.sequence:
            return None if record == old else "replayed"
        if old is None and self._is_far(record.key):
            return "too-far"
        return self._check(record, now) or self._shelf.put(record)

    def _is_far(self, key: Key) -> bool:
        """Do we know twice as many nearer peers as there are holders? Then this is not for us, however views
        differ."""
        most = 2 * self._settings.copies
        nearer = self._nearest(key, most)
        return len(nearer) == most and nearer[-1].peer ^ key < self._me.peer ^ key

    def _on_fetch(self, sender: Contact, message: Fetch, now: float) -> Effects:
        near = self._nearest(message.key, self._settings.copies + 1)
        contacts = tuple(it for it in near if it.peer != sender.peer)[: self._settings.copies]
        records: tuple[Record, ...] = ()
        has_more = False
        if message.wants_records:
            alive = [it for it in self._shelf.under(message.key, message.first) if it.expires_s > now]
            records = tuple(_fitting(alive))
            has_more = len(records) < len(alive)
        return [Send(sender, FetchReply(message.nonce, contacts, records, has_more))]

    def _arm_sweep(self, now: float) -> Effects:
        soonest_s = self._shelf.next_expiry_s
        if self._sweeps or soonest_s is None:
            return []
        self._sweeps = True
        return [Later(max(soonest_s, now + self._settings.settle_s), Sweep())]

    # Renewing what we publish

    def _draft(self, kind: str, name: str, value: bytes, now: float, *, ttl_s: float) -> Record:
        blank = draft(kind, name, publisher=self._me.peer, value=value, now=now, ttl_s=ttl_s)
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
        return self.put(self._sign(replace(fresh, is_withdrawn=record.is_withdrawn)), None, now)

    # Handing over

    def _hand_over(self, now: float) -> Effects:
        """Push to each peer that is among the k nearest to a key since the leaf set changed."""
        gained, lost = self._gained, self._lost
        self._gained, self._lost = {}, set()
        copies = self._settings.copies
        touched: dict[PeerId, _Push] = {}
        for key in self._shelf.keys():  # noqa: SIM118
            around = [self._me, *self._nearest(key, copies + len(gained))]
            around.sort(key=lambda it: it.peer ^ key)
            before = [it for it in around if it.peer not in gained][: self._settings.pushers]
            if self._me not in before:
                continue
            for contact in _newcomers(around[:copies], key, gained, lost):
                if contact is not self._me:
                    push = touched.setdefault(contact.peer, _Push(contact))
                    push.queue.extend((key, record.publisher) for record in self._shelf.under(key))
        effects: Effects = []
        for push in touched.values():
            under_way = self._pushes.get(push.to.peer)
            if under_way is not None:
                known = set(under_way.queue)
                under_way.queue.extend(it for it in push.queue if it not in known)
            else:
                self._pushes[push.to.peer] = push
                effects += self._push_on(push, now)
        return effects

    def _push_on(self, push: _Push, now: float) -> Effects:
        records = self._next_batch(push, now)
        if not records:
            self._pushes.pop(push.to.peer, None)
            return []
        return self._ask(push.to, Store(self._nonce(), True, records), push, now)

    def _next_batch(self, push: _Push, now: float) -> tuple[Record, ...]:
        """As many of the queue as fit one message; what has ended since is left out."""
        waiting = (self._shelf.get(*place) for place in list(push.queue))
        alive = [it for it in waiting if it is not None and it.expires_s > now]
        batch = tuple(_fitting(alive))
        push.queue = deque((it.key, it.publisher) for it in alive[len(batch) :])
        return batch


def _newcomers(
    group: list[Contact], key: Key, gained: dict[PeerId, Contact], lost: set[PeerId]
) -> Iterator[Contact]:
    """Who of the k nearest cannot have the records yet: the gained, and who moved up for the lost."""
    yield from (it for it in group if it.peer in gained)
    edge = group[-1].peer ^ key
    vacancies = sum(1 for peer in lost if peer ^ key < edge)
    if vacancies:
        yield from (it for it in group[-vacancies:] if it.peer not in gained)


def _fitting(records: Iterable[Record]) -> Iterator[Record]:
    """The first of `records`, as many as one message can hold: at least one, for one always fits."""
    bytes_left = RECORDS_BYTES_MAX
    for count, record in enumerate(records):
        bytes_left -= record.bytes_about
        if bytes_left < 0 or count == RECORDS_MAX:
            return
        yield record
