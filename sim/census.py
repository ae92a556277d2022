"""Who is nearest to a key, known from above.

The simulator sees all peers at once, so it can say what the peers must find out by talking. Ids are kept
sorted; those that share a prefix lie side by side, and of two halves the one with the key's next bit is
nearer as a whole. So an answer costs a few bisections instead of a pass over 10,000 ids. A test holds this
against brute force.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

from overlay.ids import ID_BITS, Key, PeerId

FEW = 16
"""Ranges this short are sorted outright: halving them further costs more."""


class Census:
    """The ids of all live peers.

    >>> census = Census([PeerId(Key(1)), PeerId(Key(4)), PeerId(Key(9))])
    >>> census.owner(Key(5)), census.nearest(Key(0), 2)
    (4, [1, 4])
    """

    def __init__(self, peers: Iterable[PeerId] = ()) -> None:
        self._ids = sorted(peers)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, peer: PeerId) -> None:
        insort(self._ids, peer)

    def remove(self, peer: PeerId) -> None:
        index = bisect_left(self._ids, peer)
        assert self._ids[index] == peer
        del self._ids[index]

    def owner(self, key: Key) -> PeerId:
        """The peer nearest to `key`."""
        return self.nearest(key, 1)[0]

    def nearest(self, key: Key, count: int) -> list[PeerId]:
        """The `count` peers nearest to `key`, nearest first."""
        found: list[PeerId] = []
        # Ranges still to be looked at, the nearest on top: ids[low:high] agree with each other above `bit`.
        todo = [(0, len(self._ids), ID_BITS - 1)]
        while todo and len(found) < count:
            low, high, bit = todo.pop()
            if high - low <= FEW:
                found += sorted(self._ids[low:high], key=lambda peer: peer ^ key)
                continue
            middle = bisect_left(self._ids, ((self._ids[low] >> bit) | 1) << bit, low, high)
            zeros, ones = (low, middle, bit - 1), (middle, high, bit - 1)
            todo += (zeros, ones) if key >> bit & 1 else (ones, zeros)
        return found[:count]

    def leaves(self, peer: PeerId, count: int) -> list[PeerId]:
        """The `count` peers nearest to a live peer, without itself."""
        nearest = self.nearest(peer, count + 1)
        assert nearest[0] == peer
        return nearest[1:]
