"""The snapshots of one instance in the order they were taken, and which of them are stored.

A base begins a chain, a delta lengthens it. The note of an epoch names every part from the last base up to that epoch,
so it can only be written when all of those are stored, in whatever order that happens.

Promises: `parts(epoch)` is what a restore of that epoch needs, no more and no less; a part is given up (`forget`) only
when neither the last committed epoch nor the one before needs it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dataflow.generations.notes import Part


@dataclass(slots=True)
class _Link:
    epoch: int
    is_base: bool
    part: Part | None


class Links:
    """
    >>> links = Links()
    >>> links.taken(1, is_base=True); links.taken(2, is_base=False)
    >>> links.stored(2, Part(1, 2, True, b"b")); links.parts(2)
    >>> links.stored(1, Part(1, 1, True, b"a")); [part.data for part in links.parts(2)]
    [b'a', b'b']
    """

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        """`parts`: what the instance was restored from."""
        self._links = [_Link(0, at == 0, part) for at, part in enumerate(parts)]
        self._committed = [0, 0]

    def taken(self, epoch: int, *, is_base: bool) -> None:
        assert not self._links or self._links[-1].epoch <= epoch
        self._links.append(_Link(epoch, is_base, None))

    def stored(self, epoch: int, part: Part) -> None:
        for link in self._links:
            if link.epoch == epoch and link.part is None:
                link.part = part

    def parts(self, epoch: int) -> tuple[Part, ...] | None:
        """What a restore of this epoch needs; None while some of it is not stored."""
        chain = self._chain(epoch)
        if not chain or chain[-1].epoch != epoch:
            return None
        found = [link.part for link in chain if link.part is not None]
        return tuple(found) if len(found) == len(chain) else None

    def waiting(self) -> list[int]:
        """Epochs whose snapshot was taken, in order."""
        return [link.epoch for link in self._links if link.epoch]

    def forget(self, epoch: int) -> list[Part]:
        """The epoch is committed: which parts nobody will ask for again."""
        if epoch <= self._committed[1]:
            return []
        self._committed = [self._committed[1], epoch]
        chain = self._chain(self._committed[0]) or self._chain(epoch)
        begin = self._links.index(chain[0]) if chain else 0
        gone = [link.part for link in self._links[:begin] if link.part is not None]
        self._links = self._links[begin:]
        return gone

    @property
    def kept(self) -> list[Part]:
        """All parts that somebody may still ask for."""
        return [link.part for link in self._links if link.part is not None]

    def replace(self, before: Part, after: Part) -> bool:
        """The same snapshot in other hands. False if nobody needs it any more."""
        found = [link for link in self._links if link.part == before]
        for link in found:
            link.part = after
        return bool(found)

    def lost(self, epoch: int) -> None:
        """The snapshot of this epoch cannot be stored: neither it nor what builds on it will ever be whole."""
        # The link stays, without its part: whatever was taken upon it meanwhile is not whole either.
        assert any(link.epoch == epoch and link.part is None for link in self._links), epoch

    def _chain(self, epoch: int) -> list[_Link]:
        """From the last base up to the epoch."""
        upto = [link for link in self._links if link.epoch <= epoch]
        begin = max((at for at, link in enumerate(upto) if link.is_base), default=0)
        return upto[begin:]
