"""What a zone has to offer, in two KiB, however many peers it has.

A zone's digest is a *sample* of its members: the K whose ids have the smallest hashes, each with its own
capacity and load. Every peer picks the same K without asking anybody, so two digests merge into the digest
of both: take all members, the newest word of each, and keep the K smallest. The order and the number of
merges do not matter, which is what lets gossip repeat itself.

    fewer than K      the sample is the zone: every total is exact
    K                 there are more: count = (K - 1) / h, where h is the K-th smallest hash as a share of all
                      hashes (the KMV estimator; its standard error is 1 / sqrt(K - 2), 18 % at K = 33);
                      totals are sample means times that count

A second, smaller sample holds schedulers, so that a zone of thousands still names some. A member's word
carries a version that only it raises, and its age: members that fall silent age out everywhere.

Pure. Rejected: adding up counters on the way (every duplicate counts twice); push-sum (exact, but a lost
message loses mass); HyperLogLog (counts, but cannot add up capacities or forget the dead).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import compress
from math import inf
from operator import gt
from typing import Annotated, Final

from overlay.ids import PeerId, to_bytes
from overlay.wire import U16, U64, Flag, WirePeer, real

EXACT_MAX: Final = 32
"""Largest zone that is known exactly. The error of larger ones falls with its square root; messages grow
with it."""
MEMBERS_MAX: Final = EXACT_MAX + 1
"""Members in a zone's sample (K): one more than we count exactly, for that one says that there are others."""
SCHEDULERS_MAX: Final = 8
"""Schedulers in a zone's sample: one serves 50 apps, and whoever asks needs one that lives."""

_HASHES = 1 << 64


@lru_cache(maxsize=1 << 16)
def rank(peer: PeerId) -> int:
    """A peer's place in every sample. Not the id itself: a zone's ids need not be spread evenly."""
    return int.from_bytes(blake2b(to_bytes(peer), digest_size=8, person=b"shoal-rank").digest(), "big")


@dataclass(frozen=True, slots=True)
class Member:
    """One peer's word about itself, and when it gave it by the clock of who tells (gossiping.py)."""

    peer: WirePeer
    slots: U16
    slots_used: U16
    is_scheduler: Flag
    version: U64
    said_s: Annotated[float, real(-1e12, 1e12)]

    def supersedes(self, other: "Member") -> bool:
        """Newer word wins. Of the same word the older age: an echo must not make it look fresh."""
        if self.version != other.version:
            return self.version > other.version
        return self is not other and self._tie() < other._tie()

    def _tie(self) -> tuple[float, int, int, bool]:
        # Beyond the age, only a liar gives two words one version; all then settle on the same.
        return (self.said_s, self.slots, self.slots_used, self.is_scheduler)


class Sample:
    """The `most` members of smallest rank, the newest word of each.

    Three columns, sorted by rank: gossip sends two of them as they are, and compares them with another's in C.
    """

    __slots__ = ("_ceiling", "_most", "_refilled_by_s", "oldest_s", "ranks", "versions", "words")

    def __init__(self, most: int, members: Iterable[Member] = ()) -> None:
        self.ranks: tuple[int, ...] = ()
        """Who is inside. Made anew when that changes, which is seldom, so messages can share it."""
        self.versions: list[int] = []
        self.words: list[Member] = []
        self._most = most
        self.oldest_s = inf
        """Up to here `forget_older` has nothing to do: most of the time nobody can have aged out."""
        self._ceiling: int | None = None
        """After deaths in a full sample: the rank up to which we still know everybody, until others fill it."""
        self._refilled_by_s = 0.0
        for member in members:
            self.add(member)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and (self._most, self.words) == (other._most, other.words)

    __hash__ = None  # type: ignore[assignment]

    def get(self, peer: PeerId) -> Member | None:
        place = rank(peer)
        at = bisect_left(self.ranks, place)
        return self.words[at] if at < len(self.ranks) and self.ranks[at] == place else None

    def add(self, member: Member) -> bool:
        """Take a member's word, if it belongs here and is news. Returns whether it was."""
        place, ranks = rank(member.peer), self.ranks
        at = bisect_left(ranks, place)
        if at == self._most:
            return False
        if at == len(ranks) or ranks[at] != place:
            self._insert(at, place, member)
        elif member.version > self.versions[at] or member.supersedes(self.words[at]):
            self.words[at] = member
            self.versions[at] = member.version
        else:
            return False
        if member.said_s < self.oldest_s:
            self.oldest_s = member.said_s
        return True

    def _insert(self, at: int, place: int, member: Member) -> None:
        ranks = (*self.ranks[:at], place, *self.ranks[at:])
        self.words.insert(at, member)
        self.versions.insert(at, member.version)
        if len(ranks) > self._most:
            ranks = ranks[:-1]
            del self.words[-1], self.versions[-1]
        if len(ranks) == self._most:
            self._ceiling = None
        self.ranks = ranks

    def forget_older(self, said_s: float) -> None:
        """Drop whose last word is older than that."""
        if said_s <= self.oldest_s:
            return
        if self._ceiling is not None and said_s > self._refilled_by_s:
            self._ceiling = None  # nobody came to fill it: the zone is as small as it looks
        kept = [it for it in self.words if it.said_s >= said_s]
        if len(kept) < len(self.words):
            if len(self.words) == self._most:
                # A full sample that loses one is no zone of K - 1: its other peers are merely not heard of yet.
                self._ceiling = self.ranks[-1]
                self._refilled_by_s = max(it.said_s for it in self.words)
            self.words = kept
            self.ranks = tuple(rank(it.peer) for it in kept)
            self.versions = [it.version for it in kept]
        self.oldest_s = min((it.said_s for it in kept), default=inf)
        if self._ceiling is not None:
            self.oldest_s = min(self.oldest_s, self._refilled_by_s)

    @property
    def count(self) -> float:
        """How many peers the sample stands for."""
        if self._ceiling is not None:
            below = bisect_right(self.ranks, self._ceiling)
            return max(float(len(self)), below * _HASHES / (self._ceiling + 1))
        if len(self) < self._most:
            return float(len(self))
        return max(float(self._most), (self._most - 1) * _HASHES / (self.ranks[-1] + 1))


@dataclass(frozen=True, slots=True)
class ZoneTotals:
    """What a zone amounts to. Exact while it has at most `EXACT_MAX` members, estimated above."""

    peers: float
    slots: float
    slots_used: float
    schedulers: tuple[PeerId, ...]


_NO_SCHEDULERS: Final = Sample(SCHEDULERS_MAX)
"""What every zone without schedulers shares. It stays empty."""


class ZoneDigest:
    """The sample of one zone's members, and that of its schedulers.

    >>> attic = ZoneDigest()
    >>> attic.add(Member(PeerId(7), slots=8, slots_used=2, is_scheduler=True, version=1, said_s=0.0))
    True
    >>> attic.add(Member(PeerId(9), slots=4, slots_used=4, is_scheduler=False, version=1, said_s=0.0))
    True
    >>> attic.totals()
    ZoneTotals(peers=2.0, slots=12.0, slots_used=6.0, schedulers=(7,))
    """

    __slots__ = ("members", "schedulers")

    def __init__(self) -> None:
        self.members = Sample(MEMBERS_MAX)
        self.schedulers = _NO_SCHEDULERS

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZoneDigest):
            return NotImplemented
        return (self.members, self.schedulers) == (other.members, other.schedulers)

    __hash__ = None  # type: ignore[assignment]

    def words(self) -> tuple[Member, ...]:
        """All that is said here, each word once."""
        return (*self.members, *(it for it in self.schedulers if self.members.get(it.peer) != it))

    def __bool__(self) -> bool:
        return bool(len(self.members) or len(self.schedulers))

    def add(self, member: Member) -> bool:
        if not member.is_scheduler:
            return self.members.add(member)
        is_news = self.members.add(member)
        if self.schedulers is _NO_SCHEDULERS:
            self.schedulers = Sample(SCHEDULERS_MAX)
        # The two samples never look at each other here: only so do merges commute.
        return self.schedulers.add(member) or is_news

    def merge(self, other: "ZoneDigest") -> None:
        """Become the digest of both."""
        for member in other.words():
            self.add(member)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Who is inside, in the order of `versions`. Who is in both samples is named twice."""
        # Members last: of a peer that is no scheduler any more they have the newer word.
        return self.schedulers.ranks + self.members.ranks

    @property
    def versions(self) -> tuple[int, ...]:
        return tuple(self.schedulers.versions + self.members.versions)

    def newer_than(self, ranks: tuple[int, ...], versions: tuple[int, ...]) -> tuple[Member, ...]:
        """Our words that are news to whoever has these `versions` of the members of these `ranks`."""
        schedulers, members = self.schedulers, self.members
        words = schedulers.words + members.words
        if len(versions) == len(words) and ranks == schedulers.ranks + members.ranks:
            newer = compress(words, map(gt, schedulers.versions + members.versions, versions))
        else:
            known = dict(zip(ranks, versions, strict=False))
            newer = compress(words, [known.get(rank(it.peer), -1) < it.version for it in words])
        # One word in both samples is one object.
        return tuple(newer) if schedulers is _NO_SCHEDULERS else tuple({id(it): it for it in newer}.values())

    def newest(self, peer: PeerId) -> Member | None:
        """The newest word of a peer in either sample."""
        inside, scheduler = self.members.get(peer), self.schedulers.get(peer)
        if inside is None or (scheduler is not None and scheduler.supersedes(inside)):
            return scheduler
        return inside

    def forget_older(self, said_s: float) -> None:
        self.members.forget_older(said_s)
        self.schedulers.forget_older(said_s)

    def totals(self) -> ZoneTotals:
        count, size = self.members.count, len(self.members)
        scale = count / size if size else 0.0
        return ZoneTotals(
            peers=count,
            slots=scale * sum(member.slots for member in self.members),
            slots_used=scale * sum(member.slots_used for member in self.members),
            schedulers=tuple(sorted(it.peer for it in self.schedulers if self._is_still_scheduler(it.peer))),
        )

    def _is_still_scheduler(self, peer: PeerId) -> bool:
        word = self.newest(peer)
        return word is not None and word.is_scheduler
