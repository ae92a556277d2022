"""The routing table: far peers, sorted by how long a prefix they share with us.

Row r holds peers that share exactly r leading digits with us; its 16 columns go by the next digit. One
contact of the right cell is one digit nearer to the key, so a route takes log16 N hops.

Each cell is kademlia's `KBucket`, with time as an argument. Its rule stays: whoever has been there longest stays
until it fails to answer, because old peers tend to live on and a flood of new ones must not wash them out.
Rejected: kademlia's `RoutingTable`, which splits buckets by a binary tree, and delivers 89 % of keys (measured
at 10,000 peers) to the true owner by recursive routing where prefix cells deliver all.
"""

from collections.abc import Iterable, Iterator, Mapping

from kademlia.routing import KBucket

from overlay.contact import Contact
from overlay.ids import DIGIT_BITS, DIGIT_VALUES, DIGITS, ID_BITS, Key, PeerId, digit_at, shared_digits

CHALLENGE_PAUSE_S = 60.0
"""A full cell questions its oldest contact at most this often, however many newcomers ask for its place."""


class Cell(KBucket):  # type: ignore[misc]  # kademlia ships no types
    """A few peers with one prefix, least recently seen first."""

    def __init__(self, size: int, now: float) -> None:
        super().__init__(0, 0, size, replacementNodeFactor=1)
        self.touch_last_updated(now)

    def touch_last_updated(self, now: float = 0.0) -> None:
        self.last_updated = now

    def contacts(self) -> list[Contact]:
        return list(self.nodes.values())

    def oldest_to_challenge(self, now: float) -> Contact | None:
        """Whom to ping because a newcomer wants in; nobody if that was done lately."""
        if now - self.last_updated < CHALLENGE_PAUSE_S:
            return None
        self.touch_last_updated(now)
        oldest: Contact = self.head()
        return oldest


class Table:
    """Contacts by prefix, seen from `me`."""

    def __init__(self, me: PeerId, cell_size: int) -> None:
        self._me = me
        self._cell_size = cell_size
        self._cells: dict[int, Cell] = {}
        self._known: dict[PeerId, Contact] = {}
        """Everyone in a cell, spares not counted: most questions need no cell."""

    def _slot(self, key: Key) -> int:
        row = shared_digits(self._me, key)
        return row * DIGIT_VALUES + digit_at(key, row)

    def see(self, contact: Contact, now: float) -> Contact | None:
        """Take note of a live peer. Returns an old contact to ping if there was no room for this one."""
        if contact.peer == self._me:
            return None
        slot = self._slot(contact.peer)
        cell = self._cells.get(slot)
        if cell is None:
            cell = self._cells[slot] = Cell(self._cell_size, now)
        if cell.add_node(contact):
            self._known[contact.peer] = contact
            return None
        return cell.oldest_to_challenge(now)

    def hear_of(self, contacts: Iterable[Contact], now: float) -> None:
        """Take contacts that somebody else named where there is room: hearsay never displaces anyone.

        Nine of ten are known already, and a join brings hundreds: hence the one flat loop.
        """
        me, known, cells, size = self._me, self._known, self._cells, self._cell_size
        for contact in contacts:
            peer = contact.peer
            mine = known.get(peer)
            if mine is not None:
                if contact.boot_ms > mine.boot_ms:  # it restarted, perhaps elsewhere
                    cells[self._slot(peer)].nodes[contact.id] = known[peer] = contact
                continue
            if peer == me:
                continue
            row = (ID_BITS - (me ^ peer).bit_length()) // DIGIT_BITS
            slot = row * DIGIT_VALUES + ((peer >> (ID_BITS - DIGIT_BITS * (row + 1))) & (DIGIT_VALUES - 1))
            cell = cells.get(slot)
            if cell is None:
                cell = cells[slot] = Cell(size, now)
            elif len(cell.nodes) >= size:
                continue
            cell.nodes[contact.id] = contact
            known[peer] = contact

    def remove(self, peer: PeerId) -> None:
        """Forget a peer; a spare takes its place."""
        contact = self._known.pop(peer, None)
        if contact is None:
            return
        slot = self._slot(peer)
        cell = self._cells[slot]
        cell.remove_node(contact)
        for each in cell.nodes.values():
            self._known[each.peer] = each
        if not cell.nodes:
            del self._cells[slot]

    def get(self, peer: PeerId) -> Contact | None:
        return self._known.get(peer)

    def known(self) -> Mapping[PeerId, Contact]:
        return self._known

    def towards(self, key: Key) -> list[Contact]:
        """The contacts that share one more digit with `key` than we do."""
        cell = self._cells.get(self._slot(key)) if key != self._me else None
        return [] if cell is None else cell.contacts()

    def row(self, row: int) -> list[Contact]:
        found: list[Contact] = []
        for slot in range(row * DIGIT_VALUES, (row + 1) * DIGIT_VALUES):
            cell = self._cells.get(slot)
            if cell is not None:
                found += cell.nodes.values()
        return found

    def one_per_cell(self) -> list[Contact]:
        """The most recently seen contact of every cell, top row first."""
        return [next(reversed(self._cells[slot].nodes.values())) for slot in sorted(self._cells)]

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def rows(self) -> int:
        """How many rows hold anybody."""
        return len({slot // DIGIT_VALUES for slot in self._cells})


def key_in_cell(me: PeerId, contact: PeerId, tail: int) -> Key:
    """A key with the prefix of the cell in which `me` keeps `contact`, and the low bits of `tail`."""
    row = min(shared_digits(me, contact), DIGITS - 1)
    low_bits = ID_BITS - DIGIT_BITS * (row + 1)
    return Key((contact >> low_bits << low_bits) | (tail & ((1 << low_bits) - 1)))
