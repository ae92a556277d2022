"""The leaf set: the peers nearest to us by XOR, exactly.

Whoever owns a key near us is in here, so the last hop of a route is decided by this set alone. When it is exact,
so is ownership: all peers in the smallest subtree that holds us and the key are among our leaves as long as the
farthest leaf lies outside of that subtree (`covers`). After a loss it is exact only as far out as it was before,
until the hole has been filled from outside (`settle`).

The relation is not mutual (92 % of pairs are): a peer whom we do not count may still count us.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from overlay.contact import Contact
from overlay.ids import ID_BITS, Key, PeerId


@dataclass(frozen=True, slots=True)
class Change:
    """What an offer or a removal did to the set."""

    gained: Contact | None
    lost: PeerId | None


class LeafSet:
    """At most `size` peers around `me`, nearest first.

    >>> leaves = LeafSet(PeerId(Key(0)), size=2)
    >>> for peer in (9, 1, 4): _ = leaves.offer(Contact(PeerId(Key(peer)), "h", peer))
    >>> [leaf.port for leaf in leaves]
    [1, 4]
    """

    def __init__(self, me: PeerId, size: int) -> None:
        self._me = me
        self._size = size
        self._limit: int | None = None
        """After a loss: how far out we still know everybody. Whoever fills the hole next may live far beyond it."""
        self._distances: list[int] = []
        self._by_distance: dict[int, Contact] = {}

    def offer(self, contact: Contact) -> Change | None:
        """Take a live peer in if it is near enough. `None`: nothing changed but, perhaps, its address."""
        distance = contact.peer ^ self._me
        if distance in self._by_distance:
            self._by_distance[distance] = contact
            return None
        if distance == 0 or not self.would_take(contact.peer):
            return None
        lost = None
        if len(self._distances) == self._size:
            lost = self._by_distance.pop(self._distances.pop()).peer
        self._distances.insert(bisect_left(self._distances, distance), distance)
        self._by_distance[distance] = contact
        return Change(contact, lost)

    def remove(self, peer: PeerId) -> Change | None:
        distance = peer ^ self._me
        if distance not in self._by_distance:
            return None
        if len(self._distances) == self._size:
            self._limit = min(self._distances[-1], self._distances[-1] if self._limit is None else self._limit)
        del self._by_distance[distance]
        del self._distances[bisect_left(self._distances, distance)]
        return Change(None, peer)

    def would_take(self, peer: PeerId) -> bool:
        """Is `peer` nearer than our farthest leaf, or is there room?"""
        return len(self._distances) < self._size or (peer ^ self._me) < self._distances[-1]

    def lacks(self, contact: Contact) -> bool:
        """Would this peer, in this life, belong here, and is not?"""
        known = self._by_distance.get(contact.peer ^ self._me)
        if known is not None:
            return contact.boot_ms > known.boot_ms
        return self.would_take(contact.peer) and contact.peer != self._me

    def missing(self, contacts: Iterable[Contact]) -> list[Contact]:
        """Those of `contacts` that would be here if all of them lived: newcomers, and later lives of leaves."""
        lacking = {contact.peer ^ self._me: contact for contact in contacts if self.lacks(contact)}
        if not lacking:
            return []
        nearest = sorted({*self._distances, *lacking})[: self._size]
        return [lacking[distance] for distance in nearest if distance in lacking]

    def settle(self) -> None:
        """The holes have been filled as well as anybody knows: what is here now is exact again."""
        self._limit = None

    def radius_bits(self) -> int | None:
        """The height of the subtree in which we know everybody; `None` while that is the whole ring."""
        if len(self._distances) < self._size:
            return None if self._limit is None else self._limit.bit_length()
        return min(self._distances[-1], self._distances[-1] if self._limit is None else self._limit).bit_length()

    def covers(self, key: Key) -> bool:
        """Do we know everyone who could be nearer to `key` than we are?"""
        rim = self.radius_bits()
        return rim is None or rim > (key ^ self._me).bit_length()

    def reaches(self, peer: PeerId) -> bool:
        """Is `peer` in the subtree that our leaves come from? Then our leaves may be its leaves."""
        if len(self._distances) < self._size:
            return True
        return (peer ^ self._me).bit_length() <= self._distances[-1].bit_length()

    def owner(self, key: Key, avoid: Iterable[PeerId] = (), *, but_us: bool = False) -> Contact | None:
        """The leaf nearest to `key` if it is nearer than we are (or `but_us`); `None` when we are the owner."""
        best, best_distance = None, 1 << ID_BITS if but_us else key ^ self._me
        for contact in self._by_distance.values():
            if contact.peer ^ key < best_distance and contact.peer not in avoid:
                best, best_distance = contact, contact.peer ^ key
        return best

    def get(self, peer: PeerId) -> Contact | None:
        return self._by_distance.get(peer ^ self._me)

    def __contains__(self, peer: PeerId) -> bool:
        return (peer ^ self._me) in self._by_distance

    def contacts(self) -> list[Contact]:
        """All leaves, nearest first."""
        by_distance = self._by_distance
        return [by_distance[distance] for distance in self._distances]

    def __iter__(self) -> Iterator[Contact]:
        return iter(self.contacts())

    def __len__(self) -> int:
        return len(self._distances)


def nearest_by_brute_force(me: Key, peers: Iterable[PeerId], size: int) -> list[PeerId]:
    """What a leaf set must equal: the law, for tests and checkers."""
    return sorted((peer for peer in peers if peer != me), key=lambda peer: peer ^ me)[:size]
