"""Hand records over when the peers around us change, so that the k nearest to a key always hold them.

Changes of the leaf set are collected for `settle_s`. Then the two holders nearest to a key push its records to
whoever is among the k since: who came, and who moved up for the lost. A peer that leaves pushes all it holds.

Promises: one message at a time to each peer, so that a slow one is not flooded; nothing is pushed to who was among
the k before.

Pure: changes come in, effects go out. Rejected: all k holders pushing (k times the bytes for nothing).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from overlay.contact import Contact
from overlay.directory_asking import Ask, Asks
from overlay.directory_holding import fitting
from overlay.directory_site import Site
from overlay.effects import Effects, Later, Send
from overlay.ids import Key, PeerId
from overlay.messages.storing import Store
from overlay.records import Record
from overlay.shelf import Shelf


@dataclass(frozen=True, slots=True)
class LeavesSettled:
    """The leaf set has settled: time to push."""


@dataclass(slots=True, eq=False)
class _Push:
    """Records on their way to one peer."""

    to: Contact
    queue: deque[tuple[Key, PeerId]] = field(default_factory=deque)


class HandOver:
    __slots__ = ("_asks", "_gained", "_lost", "_pushes", "_shelf", "_site")

    def __init__(self, site: Site, shelf: Shelf, asks: Asks) -> None:
        self._site = site
        self._shelf = shelf
        self._asks = asks
        self._pushes: dict[PeerId, _Push] = {}
        self._gained: dict[PeerId, Contact] = {}
        self._lost: set[PeerId] = set()

    def leaves_changed(self, gained: Iterable[Contact], lost: Iterable[PeerId], now: float) -> Effects:
        """Peers around us came or went: soon, push to whoever is among the k nearest since."""
        is_first = not (self._gained or self._lost)
        for contact in gained:
            self._gained[contact.peer] = contact
            self._lost.discard(contact.peer)
        for peer in lost:
            self._lost.add(peer)
            self._gained.pop(peer, None)
        changed = bool(self._gained or self._lost)
        return [Later(now + self._site.settings.settle_s, LeavesSettled())] if is_first and changed else []

    def settled(self, now: float) -> Effects:
        """Push to each peer that is among the k nearest to a key since the leaf set changed."""
        gained, lost = self._gained, self._lost
        self._gained, self._lost = {}, set()
        me, copies = self._site.me, self._site.settings.copies
        touched: dict[PeerId, _Push] = {}
        for key in self._shelf.keys():  # noqa: SIM118  (a Shelf is no dict: it iterates over records)
            around = [me, *self._site.nearest(key, copies + len(gained))]
            around.sort(key=lambda it: it.peer ^ key)
            before = [it for it in around if it.peer not in gained][: self._site.settings.pushers]
            if me not in before:
                continue
            for contact in _newcomers(around[:copies], key, gained, lost):
                if contact is not me:
                    self._queue(touched, contact, key)
        effects: Effects = []
        for push in touched.values():
            under_way = self._pushes.get(push.to.peer)
            if under_way is not None and not push.to.supersedes(under_way.to):
                known = set(under_way.queue)
                under_way.queue.extend(it for it in push.queue if it not in known)
            else:
                self._pushes[push.to.peer] = push
                effects += self._push_on(push, now)
        return effects

    def leave(self, now: float) -> Effects:
        """We go: hand on all that we hold, at once."""
        copies = self._site.settings.copies
        pushes: dict[PeerId, _Push] = {}
        for key in self._shelf.keys():  # noqa: SIM118
            others = self._site.nearest(key, copies)
            if others:
                # The last of the k nearest without us is the one who takes our place.
                self._queue(pushes, others[-1] if len(others) == copies else others[0], key)
        sends: Effects = []
        for push in pushes.values():
            while records := self._next_batch(push, now):
                sends.append(Send(push.to, Store(self._site.nonce(), True, records)))
        return sends

    def is_moot(self, ask: Ask) -> bool:
        return False

    def on_reply(self, ask: Ask, reply: Any, now: float) -> Effects:
        return self._push_on(ask.job, now)

    def on_silence(self, ask: Ask, now: float) -> Effects:
        # Dead, or soon found to be; then the leaf set changes and names another holder.
        self._end(ask.job)
        return []

    def _end(self, push: _Push) -> None:
        if self._pushes.get(push.to.peer) is push:  # else the peer has restarted, and another push serves its new life
            del self._pushes[push.to.peer]

    def _queue(self, pushes: dict[PeerId, _Push], to: Contact, key: Key) -> None:
        push = pushes.setdefault(to.peer, _Push(to))
        push.queue.extend((key, record.publisher) for record in self._shelf.under(key))

    def _push_on(self, push: _Push, now: float) -> Effects:
        records = self._next_batch(push, now)
        if not records:
            self._end(push)
            return []
        return self._asks.ask(Ask(push.to, Store(self._site.nonce(), True, records), self, push), now)

    def _next_batch(self, push: _Push, now: float) -> tuple[Record, ...]:
        """As many of the queue as fit one message; what has ended since is left out."""
        waiting = (self._shelf.get(*place) for place in push.queue)
        alive = [it for it in waiting if it is not None and it.expires_s > now]
        batch = tuple(fitting(alive))
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
