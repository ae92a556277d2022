"""Hold records for the cluster: keep what is ours to keep, tell who asks, drop what has expired.

Promises: a record that fails the check is not kept, and the refusal says why; nor is one whose key is far from us.
A shelf that holds nothing sets no timer.

Pure: messages come in, effects go out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from overlay.contact import Contact
from overlay.directory_site import Site
from overlay.effects import Effects, Later, Refused, Send
from overlay.ids import Key
from overlay.messages.storing import (
    RECORDS_BYTES_MAX,
    RECORDS_MAX,
    Fetch,
    FetchReply,
    Refusal,
    Store,
    StoreReply,
)
from overlay.records import Record
from overlay.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Sweep:
    """Time to drop what has expired."""


class Holding:
    __slots__ = ("_is_sweeping", "_site", "shelf")

    def __init__(self, site: Site) -> None:
        settings = site.settings
        self._site = site
        self._is_sweeping = False
        self.shelf = Shelf(
            site.me.peer,
            records_max=settings.records_max,
            per_publisher_max=settings.per_publisher_max,
            per_key_max=settings.per_key_max,
        )

    def on_store(self, sender: Contact, message: Store, now: float) -> Effects:
        effects: Effects = []
        refused = []
        for index, record in enumerate(message.records):
            reason = self.keep(record, now)
            if reason is None:
                continue
            refused.append(Refusal(index, reason))
            if not (message.is_hand_over and reason in ("replayed", "expired")):
                effects.append(Refused(sender.peer, reason))
        return [*effects, Send(sender, StoreReply(message.nonce, tuple(refused))), *self.arm_sweep(now)]

    def keep(self, record: Record, now: float) -> str | None:
        """Hold `record`, or say why not. What we hold already costs nothing to hold again."""
        old = self.shelf.get(record.key, record.publisher)
        if old is not None and record.sequence <= old.sequence:
            return None if record == old else "replayed"
        if old is None and self._is_far(record.key):
            return "too-far"
        return self._site.check(record, now) or self.shelf.put(record)

    def _is_far(self, key: Key) -> bool:
        """Do we know twice as many nearer peers as there are holders? Then this is not for us, however views
        differ."""
        most = 2 * self._site.settings.copies
        nearer = self._site.nearest(key, most)
        return len(nearer) == most and nearer[-1].peer ^ key < self._site.me.peer ^ key

    def on_fetch(self, sender: Contact, message: Fetch, now: float) -> Effects:
        copies = self._site.settings.copies
        near = self._site.nearest(message.key, copies + 1)
        contacts = tuple(it for it in near if it.peer != sender.peer)[:copies]
        records: tuple[Record, ...] = ()
        has_more = False
        if message.wants_records:
            alive = [it for it in self.shelf.under(message.key, message.first) if it.expires_s > now]
            records = tuple(fitting(alive))
            has_more = len(records) < len(alive)
        return [Send(sender, FetchReply(message.nonce, contacts, records, has_more))]

    def drop_where(self, is_bad: Callable[[Record], bool]) -> int:
        """Drop what we hold of the revoked. Returns how many records that were."""
        bad = [(it.key, it.publisher) for it in self.shelf if is_bad(it)]
        for key, publisher in bad:
            self.shelf.drop(key, publisher)
        return len(bad)

    def sweep(self, now: float) -> Effects:
        self._is_sweeping = False
        self.shelf.expire(now)
        return self.arm_sweep(now)

    def arm_sweep(self, now: float) -> Effects:
        """Set the timer for what expires next, if it is not set."""
        soonest_s = self.shelf.next_expiry_s
        if self._is_sweeping or soonest_s is None:
            return []
        self._is_sweeping = True
        return [Later(max(soonest_s, now + self._site.settings.settle_s), Sweep())]


def fitting(records: Iterable[Record]) -> Iterator[Record]:
    """The first of `records`, as many as one message can hold: at least one, for one always fits."""
    bytes_left = RECORDS_BYTES_MAX
    for count, record in enumerate(records):
        bytes_left -= record.bytes_about
        if bytes_left < 0 or count == RECORDS_MAX:
            return
        yield record
