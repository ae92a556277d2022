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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
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
        return self._tie() < other._tie()

    def _tie(self) -> tuple[float, int, int, bool]:
        # Beyond the age, only a liar gives two words one version; all then settle on the same.
        return (self.said_s, self.slots, self.slots_used, self.is_scheduler)


class Sample:
    """The `most` members of smallest rank, the newest word of each."""

    __slots__ = ("_ceiling", "_highest", "_members", "_most", "_refilled_by_s")

    def __init__(self, most: int, members: Iterable[Member] = ()) -> None:
        self._most = most
        self._members: dict[PeerId, Member] = {}
        self._highest = _HASHES
        """When full: the largest rank inside. Whoever is above is turned away by one comparison."""
        self._ceiling: int | None = None
        """After deaths in a full sample: the rank up to which we still know everybody, until others fill
        it."""
        self._refilled_by_s = 0.0
        for member in members:
            self.add(member)

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and (self._most, self._members) == (other._most, other._members)

    __hash__ = None  # type: ignore[assignment]

    def get(self, peer: PeerId) -> Member | None:
        return self._members.get(peer)

    def add(self, member: Member) -> bool:
        """Take a member's word, if it belongs here and is news. Returns whether it was."""
        known = self._members.get(member.peer)
        if known is not None:
            if not member.supersedes(known):
                return False
            self._members[member.peer] = member
            return True
        is_full = len(self._members) >= self._most
        if is_full and rank(member.peer) > self._highest:
            return False
        if is_full:
            del self._members[max(self._members, key=rank)]
        self._members[member.peer] = member
        self._measure()
        return True

    def _measure(self) -> None:
        if len(self._members) < self._most:
            self._highest = _HASHES
        else:
            self._highest = max(map(rank, self._members))
            self._ceiling = None

    def forget_older(self, said_s: float) -> None:
        """Drop whose last word is older than that."""
        if self._ceiling is not None and said_s > self._refilled_by_s:
            self._ceiling = None  # nobody came to fill it: the zone is as small as it looks
        silent = [member.peer for member in self._members.values() if member.said_s < said_s]
        if not silent:
            return
        if len(self._members) >= self._most:
            # A full sample that loses one is no zone of K - 1: its other peers are merely not heard of yet.
            self._ceiling = self._highest
            self._refilled_by_s = max(member.said_s for member in self._members.values())
        for peer in silent:
            del self._members[peer]
        self._measure()

    @property
    def count(self) -> float:
        """How many peers the sample stands for."""
        if self._ceiling is not None:
            below = sum(1 for peer in self._members if rank(peer) <= self._ceiling)
            return max(float(len(self._members)), below * _HASHES / (self._ceiling + 1))
        if len(self._members) < self._most:
            return float(len(self._members))
        return max(float(self._most), (self._most - 1) * _HASHES / (self._highest + 1))


@dataclass(frozen=True, slots=True)
class ZoneTotals:
    """What a zone amounts to. Exact while it has at most `EXACT_MAX` members, estimated above."""

    peers: float
    slots: float
    slots_used: float
    schedulers: tuple[PeerId, ...]


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
        self.schedulers = Sample(SCHEDULERS_MAX)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZoneDigest):
            return NotImplemented
        return (self.members, self.schedulers) == (other.members, other.schedulers)

    __hash__ = None  # type: ignore[assignment]

    def words(self) -> tuple[Member, ...]:
        """All that is said here, each word once."""
        if not len(self.schedulers):
            return tuple(self.members)
        return (*self.members, *(it for it in self.schedulers if self.members.get(it.peer) != it))

    def __bool__(self) -> bool:
        return bool(len(self.members) or len(self.schedulers))

    def add(self, member: Member) -> bool:
        is_news = self.members.add(member)
        # The two samples never look at each other here: only so do merges commute.
        return (member.is_scheduler and self.schedulers.add(member)) or is_news

    def merge(self, other: "ZoneDigest") -> None:
        """Become the digest of both."""
        for member in other.words():
            self.add(member)

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
