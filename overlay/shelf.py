"""The records that one holder keeps: bounded, the newest of each publisher, gone when they expire.

A shelf believes what it is given: whoever puts a record here has checked it. It settles three things.

*Newest wins.* For each (key, publisher) only a higher sequence replaces what is there. A tombstone is a
record like any other, so what it withdrew cannot come back while it lies here; and it lies here longer than
that could.

*Bounds.* A publisher has at most `per_publisher_max` records, a key at most `per_key_max`, the shelf at
most `records_max`. An update of a record that is here always gets in. A new one that finds its publisher or
its key full is refused: what was promised stays. One that finds the shelf full replaces the record whose key
is farthest from us, if that is farther than its own: others are nearer to that key and keep it too.
Tombstones count.

*Expiry.* `expire(now)` drops what has ended; `next_expiry_s` says when to call it.

Pure. Rejected: dropping the oldest first (a flood of new names would wash out every honest record).
"""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from overlay.ids import Key, PeerId
from overlay.records import Record

_LOWEST = Key(0)


class Shelf:
    __slots__ = (
        "_by_key",
        "_expiries",
        "_me",
        "_of_publisher",
        "_per_key_max",
        "_per_publisher_max",
        "_records_max",
        "_size",
    )

    def __init__(self, me: PeerId, *, records_max: int, per_publisher_max: int, per_key_max: int) -> None:
        self._me = me
        self._records_max = records_max
        self._per_publisher_max = per_publisher_max
        self._per_key_max = per_key_max
        self._by_key: dict[Key, dict[PeerId, Record]] = {}
        self._of_publisher: dict[PeerId, int] = {}
        self._expiries: list[tuple[float, Key, PeerId]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Record]:
        for records in self._by_key.values():
            yield from records.values()

    def keys(self) -> list[Key]:
        return list(self._by_key)

    def get(self, key: Key, publisher: PeerId) -> Record | None:
        return self._by_key.get(key, {}).get(publisher)

    def under(self, key: Key, first: Key = _LOWEST) -> list[Record]:
        """The records of one key, by rising publisher, from the publisher `first` on."""
        records = self._by_key.get(key)
        if not records:
            return []
        publishers = sorted(records)
        return [records[publisher] for publisher in publishers[bisect_left(publishers, first) :]]

    def put(self, record: Record) -> str | None:
        """Keep `record`, if it is newer than ours and there is room. Returns the reason if it is not kept."""
        old = self.get(record.key, record.publisher)
        if old is not None:
            if record.sequence <= old.sequence:
                return None if record == old else "replayed"
            self._place(record)
            return None
        if self._of_publisher.get(record.publisher, 0) >= self._per_publisher_max:
            return "publisher-full"
        if len(self._by_key.get(record.key, ())) >= self._per_key_max:
            return "key-full"
        if self._size >= self._records_max and not self._make_room(record.key):
            return "holder-full"
        self._of_publisher[record.publisher] = self._of_publisher.get(record.publisher, 0) + 1
        self._size += 1
        self._place(record)
        return None

    def _place(self, record: Record) -> None:
        self._by_key.setdefault(record.key, {})[record.publisher] = record
        heappush(self._expiries, (record.expires_s, record.key, record.publisher))
        if len(self._expiries) > 2 * self._size + 16:
            # Every renewal leaves a stale entry behind; whoever renews in a loop must not fill our memory.
            self._expiries = [(it.expires_s, it.key, it.publisher) for it in self]
            heapify(self._expiries)

    def _make_room(self, key: Key) -> bool:
        farthest = max(self._by_key, key=self._me.__xor__)
        if farthest ^ self._me <= key ^ self._me:
            return False
        self.drop(farthest, max(self._by_key[farthest]))
        return True

    def drop(self, key: Key, publisher: PeerId) -> None:
        records = self._by_key[key]
        del records[publisher]
        if not records:
            del self._by_key[key]
        self._size -= 1
        left = self._of_publisher[publisher] - 1
        if left:
            self._of_publisher[publisher] = left
        else:
            del self._of_publisher[publisher]

    @property
    def next_expiry_s(self) -> float | None:
        """No record ends before this. (One may have been renewed since; then calling `expire` does no
        harm.)"""
        return self._expiries[0][0] if self._expiries else None

    def expire(self, now: float) -> list[Record]:
        """Drop what has ended, and return it."""
        ended = []
        while self._expiries and self._expiries[0][0] <= now:
            _, key, publisher = heappop(self._expiries)
            record = self.get(key, publisher)
            if record is not None and record.expires_s <= now:
                self.drop(key, publisher)
                ended.append(record)
        return ended
