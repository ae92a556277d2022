"""Give the fragments of one part to their holders, and do not call it stored before every one has a receipt.

Any `total - needed` holders may be lost afterwards, so all `total` receipts are wanted: with one fewer, one loss
fewer would be survived than was promised. A holder that refuses, or does not answer, is replaced by the next
candidate (holders.py). If there is none, the part is not stored, the epoch is not acknowledged, and a later one,
planned for the peers that are left, takes its place.

Also a few fragments of a part that is stored already can be placed again: see repair.py.

Pure: `begin`, then `answered` or `unanswered` for every `Ask`, until `Deposited` or `Undeposited` comes out.
Rejected: acknowledging at `needed` receipts (the first loss would be DATA_LOSS).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from overlay.frames import Buffer
from overlay.ids import PeerId, short
from recovery.coding.coded import Shape
from recovery.coding.erasure import fragment_bytes
from recovery.custody.ask import Ask
from recovery.custody.messages import Kept, PutFragment, Refused, Reply
from recovery.holders import Bench, Candidate, NoHolder
from recovery.manifest import Part, PartKind, part_of
from recovery.naming import PartId, fragment_of


@dataclass(frozen=True, slots=True)
class Deposited:
    """Every fragment has a receipt. `strays` were asked and may keep a fragment that the manifest does not name:
    they are to be told of drops too."""

    part: Part
    strays: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class Undeposited:
    """For some fragments nobody is left to ask. `kept` are those that found a holder; `reason` says what each said."""

    reason: str
    kept: Mapping[int, PeerId]
    strays: tuple[PeerId, ...]


Step = list[Ask | Deposited | Undeposited]


class Deposit:
    def __init__(
        self,
        part: PartId,
        kind: PartKind,
        shape: Shape,
        fragments: Mapping[int, Buffer],
        *,
        candidates: Iterable[Candidate],
        first_ask: int,
        wished: Mapping[int, PeerId] | None = None,
        keeping: Mapping[int, PeerId] | None = None,
        may_double: bool = False,
    ) -> None:
        """`wished`: who shall hold them, as planned; others are chosen. `keeping`: who holds the fragments not given.

        `may_double`: two fragments on one peer are better than none (a ring with fewer peers than fragments).
        """
        assert {*fragments, *(keeping or {})} == set(range(shape.total))
        self._part = part
        self._kind = kind
        self._shape = shape
        self._fragments = dict(sorted(fragments.items()))
        self._wished = dict(wished or {})
        self._may_double = may_double
        self._next_ask = first_ask
        self._bench = Bench(
            candidates, limit=shape.total - shape.needed, fragment_bytes=fragment_bytes(shape.size, shape.needed)
        )
        self._at = dict(keeping or {})
        for peer in self._at.values():
            self._bench.take(peer)
        self._waiting: dict[int, int] = {}
        self._kept: dict[int, PeerId] = {}
        self._barred: set[PeerId] = set()
        self._strays: set[PeerId] = set()
        self._said: list[str] = []
        self._is_done = False

    @staticmethod
    def asks_max(*, total: int, candidates: int) -> int:
        """How many question numbers it may use."""
        return total * (candidates + 1)

    def begin(self) -> Step:
        step: Step = []
        for index in self._fragments:
            wish = self._wished.get(index)
            step += self._place(index) if wish is None else self._ask(index, wish)
        return step + self._finish()

    def answered(self, ask: int, reply: Reply) -> Step:
        """A holder's answer. One that nobody waits for is ignored: it came twice, or too late."""
        index = self._waiting.pop(ask, None)
        if index is None:
            return []
        if isinstance(reply, Kept) and reply.digest == self._shape.digests[index]:
            self._kept[index] = self._at[index]
            return self._finish()
        said = reply.reason if isinstance(reply, Refused) else "its receipt is for something else"
        return self._instead(index, said)

    def unanswered(self, ask: int, reason: str) -> Step:
        """No answer came, and none will. It may keep the fragment all the same."""
        index = self._waiting.pop(ask, None)
        if index is None:
            return []
        self._strays.add(self._at[index])
        return self._instead(index, f"did not answer: {reason}")

    def _instead(self, index: int, said: str) -> Step:
        peer = self._at.pop(index)
        self._bench.give_back(peer)
        self._barred.add(peer)
        self._said.append(f"peer {short(peer)}: {said}")
        return self._place(index) + self._finish()

    def _place(self, index: int) -> Step:
        try:
            peer = self._bench.next(self._barred)
        except NoHolder as nobody:
            self._said.append(str(nobody))
            return []
        if self._bench.holds(peer) and not self._may_double:
            self._said.append(f"every peer with room holds a fragment of it already, and {index} is left: add a peer")
            return []
        return self._ask(index, peer)

    def _ask(self, index: int, peer: PeerId) -> Step:
        self._at[index] = peer
        self._bench.take(peer)
        self._waiting[self._next_ask] = index
        request = PutFragment(self._next_ask, fragment_of(self._part, index), self._shape.digests[index])
        self._next_ask += 1
        return [Ask(peer, request, self._fragments[index])]

    def _finish(self) -> Step:
        if self._waiting or self._is_done:
            return []
        self._is_done = True
        if len(self._kept) == len(self._fragments):
            holders = tuple(self._at[index] for index in range(self._shape.total))
            strays = tuple(sorted(self._strays.difference(holders)))
            return [Deposited(part_of(self._part, self._kind, self._shape, holders), strays)]
        strays = tuple(sorted(self._strays))
        return [Undeposited(f"the {self._part} is not stored; {'; '.join(self._said)}", dict(self._kept), strays)]
