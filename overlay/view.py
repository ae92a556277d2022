"""Everything one peer knows of the others, and the one question that matters: who is next on the way to a key?

Two rules keep the dead out. Only a peer's own word puts it into the leaf set (a message *from* it); what others
say of it may fill an empty place in the routing table, no more. And who was confirmed dead is not believed in again
on hearsay until the rumours about it have died down.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from overlay.contact import Contact
from overlay.facts import Facts
from overlay.ids import Key, PeerId
from overlay.leafset import Change, LeafSet
from overlay.settings import Settings
from overlay.table import Table

STRIKES_MAX = 2
"""Silences in a row before a contact leaves the routing table: one lost message must not evict a peer."""

GRAVES_MAX = 256
"""Dead peers remembered: far more than rumours can be about at one time. The oldest makes room."""


@dataclass(frozen=True, slots=True)
class _Grave:
    boot_ms: int
    until: float
    has_left: bool


class View:
    def __init__(self, me: Contact, settings: Settings) -> None:
        self._me = me.peer
        self._settings = settings
        self.table = Table(me.peer, settings.cell_size)
        self.leaves = LeafSet(me.peer, settings.leaves)
        self.facts = Facts()
        self.suspects: set[PeerId] = set()
        self.is_leaving = False
        """We own nothing any more: what still reaches us goes on to the nearest leaf."""
        self._strikes: dict[PeerId, int] = {}
        self._graves: dict[PeerId, _Grave] = {}

    def see(self, contact: Contact, now: float) -> tuple[Change | None, Contact | None]:
        """A message came from `contact`. Returns what that did to the leaf set, and an old contact to ping."""
        peer = contact.peer
        if self._graves:
            self._graves.pop(peer, None)
        if self._strikes:
            self._strikes.pop(peer, None)
        known = self.get(peer)
        if known is contact and not self.leaves.lacks(contact):
            return None, None
        if known is not None and known is not contact:
            if known.supersedes(contact):
                return None, None
            if contact.supersedes(known):
                self.table.remove(peer)
        return self.leaves.offer(contact), self.table.see(contact, now)

    def hear_of(self, contacts: Iterable[Contact], now: float) -> None:
        """Somebody named these: good for empty places in the table."""
        self.table.hear_of(self.not_buried(contacts, now), now)

    def not_buried(self, contacts: Iterable[Contact], now: float) -> list[Contact]:
        if not self._graves:
            return list(contacts)
        return [contact for contact in contacts if not self.is_buried(contact, now)]

    def is_buried(self, contact: Contact, now: float) -> bool:
        """Was this very life of the peer confirmed dead a short while ago?"""
        grave = self._graves.get(contact.peer)
        if grave is None:
            return False
        if now >= grave.until:
            del self._graves[contact.peer]
            return False
        return contact.boot_ms <= grave.boot_ms

    def has_left(self, contact: Contact) -> bool:
        """Did this life of the peer take leave? Then what still arrives from it was sent before."""
        grave = self._graves.get(contact.peer)
        return grave is not None and grave.has_left and contact.boot_ms <= grave.boot_ms

    def bury(self, contact: Contact, now: float, *, has_left: bool = False) -> Change | None:
        """The peer is dead or gone: drop it everywhere."""
        if len(self._graves) >= GRAVES_MAX:
            del self._graves[next(iter(self._graves))]
        self._graves[contact.peer] = _Grave(contact.boot_ms, now + self._settings.grave_s, has_left)
        return self.drop(contact)

    def exhume(self, peer: PeerId) -> None:
        """Believe again what is said of this peer."""
        self._graves.pop(peer, None)

    def drop(self, contact: Contact) -> Change | None:
        """Forget the peer, without saying that it is dead."""
        self.table.remove(contact.peer)
        self.facts.forget(contact.peer)
        self.suspects.discard(contact.peer)
        self._strikes.pop(contact.peer, None)
        return self.leaves.remove(contact.peer)

    def strike(self, contact: Contact) -> bool:
        """The peer left a question unanswered. Returns whether it has left the routing table for that.

        The leaf set does not listen: there the prober decides, with witnesses.
        """
        if contact.peer in self.leaves:
            return False
        strikes = self._strikes.get(contact.peer, 0) + 1
        if strikes < STRIKES_MAX:
            self._strikes[contact.peer] = strikes
            return False
        self.drop(contact)  # and not into a grave: silence may be ours, and others may still name it
        return True

    def get(self, peer: PeerId) -> Contact | None:
        return self.leaves.get(peer) or self.table.get(peer)

    def contacts(self) -> list[Contact]:
        """All we know, each once: leaves first, nearest first, then the table."""
        leaves = self.leaves
        return leaves.contacts() + [contact for contact in self.table if contact.peer not in leaves]

    def nearest(self, key: Key, most: int) -> list[Contact]:
        """The peers we know nearest to `key`, nearest first; never ourselves."""
        known = dict(self.table.known())
        for leaf in self.leaves.contacts():
            known[leaf.peer] = leaf
        return [known[peer] for peer in sorted(known, key=key.__xor__)[:most]]

    def next_hop(self, key: Key, avoid: Collection[PeerId] = ()) -> Contact | None:
        """Who is nearer to `key` than we are and best to ask; `None` if nobody is: then we own it."""
        if self.is_leaving:
            return self.leaves.owner(key, avoid, but_us=True)
        if self.leaves.covers(key):
            return self.leaves.owner(key, avoid)
        better = [it for it in self.table.towards(key) if it.peer not in avoid and it.peer not in self.suspects]
        if better:
            return self._choose(better, key)
        return self._nearer_than_we(key, avoid)

    def _choose(self, better: list[Contact], key: Key) -> Contact:
        """All of them are one digit nearer, so the hops left are the same: take the cheapest to reach."""
        if len(better) == 1:
            return better[0]
        if self._settings.choice == "hops":
            return min(better, key=lambda it: it.peer ^ key)
        cost = self.facts.cost
        return min(better, key=lambda it: (cost(it.peer), it.peer ^ key))

    def _nearer_than_we(self, key: Key, avoid: Collection[PeerId]) -> Contact | None:
        """The cell of the right digit is empty: take whoever is strictly nearer, unsuspected ones first."""
        mine = self._me ^ key
        nearer = [it for it in self.contacts() if it.peer ^ key < mine and it.peer not in avoid]
        return min(nearer, key=lambda it: (it.peer in self.suspects, it.peer ^ key), default=None)
