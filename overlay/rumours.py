"""What we still have to tell others about peers.

Each rumour is told a few times, about a multiplier times the logarithm of the audience, and then dropped:
by then everyone has heard it, or will from someone else. The one told least goes first, so fresh news is
never behind old news; a newer rumour about a peer replaces the older one, so there is at most one a peer.

Pure, and bounded by `QUEUED_MAX`: when it is full the most told one makes room.
Rejected: a heap (entries change place at every take; the queue is nearly always empty, else tiny).
"""

from math import ceil, log10

from overlay.ids import PeerId
from overlay.messages.probing import Rumour

QUEUED_MAX = 64
"""Most rumours kept: every peer of two leaf sets may fail at once. More would be told too late to matter."""


def times_to_tell(audience: int, *, multiplier: int) -> int:
    """multiplier * ceil(log10(audience + 1)), at least `multiplier`.

    >>> times_to_tell(20, multiplier=4)
    8
    """
    return multiplier * max(1, ceil(log10(audience + 1)))


class _Entry:
    __slots__ = ("order", "rumour", "told")

    def __init__(self, rumour: Rumour, order: int) -> None:
        self.rumour = rumour
        self.order = order
        self.told = 0

    def rank(self) -> tuple[int, int]:
        """Least told first; among equals the newest."""
        return (self.told, -self.order)


class RumourQueue:
    """Rumours to tell, least told first.

    >>> from overlay.contact import Contact
    >>> queue = RumourQueue(); who = Contact(PeerId(7), "h", 1)
    >>> queue.put(Rumour("suspect", who, 0, ())); queue.put(Rumour("alive", who, 1, ()))
    >>> [it.status for it in queue.take(8, times=1)], len(queue)
    (['alive'], 0)
    """

    __slots__ = ("_entries", "_puts")

    def __init__(self) -> None:
        self._entries: dict[PeerId, _Entry] = {}
        self._puts = 0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, rumour: Rumour) -> None:
        """Tell this from now on, instead of whatever we told about that peer."""
        self._puts += 1
        peer = rumour.contact.peer
        if peer not in self._entries and len(self._entries) >= QUEUED_MAX:
            del self._entries[max(self._entries.items(), key=lambda item: item[1].rank())[0]]
        self._entries[peer] = _Entry(rumour, self._puts)

    def drop_suspect(self, peer: PeerId) -> None:
        """We know better by now: do not go on accusing."""
        entry = self._entries.get(peer)
        if entry is not None and entry.rumour.status == "suspect":
            del self._entries[peer]

    def take(self, most: int, *, times: int) -> tuple[Rumour, ...]:
        """Up to `most` rumours for one message. One that has now been told `times` times is dropped."""
        if not self._entries:
            return ()
        entries = sorted(self._entries.values(), key=_Entry.rank)[:most]
        for entry in entries:
            entry.told += 1
            if entry.told >= times:
                del self._entries[entry.rumour.contact.peer]
        return tuple(entry.rumour for entry in entries)
