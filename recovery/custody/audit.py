"""Which fragments of a part are still there? Every holder reads what it keeps, and says; no fragment travels.

Lost is what a confirmed dead peer kept, and what a holder says it has no more, or has as something else. Silence is
not loss: half the repairs of a ring would be for peers that were only rebooting.

Pure: `begin`, then `answered` or `unanswered` for every `Ask`, until `Audited` comes out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from overlay.ids import PeerId
from recovery.custody.ask import Ask
from recovery.custody.messages import Fragment, GetFragment, NoFragment, Reply
from recovery.manifest import Part
from recovery.naming import fragment_of
from recovery.survival import losses_survived


@dataclass(frozen=True, slots=True)
class Audited:
    """Every index is in one of the three. `reasons` are the holders' own words for what is lost or unknown."""

    part: Part
    good: tuple[int, ...]
    lost: tuple[int, ...]
    silent: tuple[int, ...]
    reasons: tuple[tuple[int, str], ...]

    @property
    def silent_peers(self) -> tuple[PeerId, ...]:
        return tuple(sorted({self.part.holders[index] for index in self.silent}))

    def losses_survived(self) -> int:
        """How many of the good holders may be lost at once, counting on nobody who is silent; -1: it is lost now."""
        return losses_survived([self.part.holders[index] for index in self.good], needed=self.part.needed)


class Audit:
    def __init__(self, app: str, instance: str, part: Part, *, gone: Collection[PeerId], first_ask: int) -> None:
        """`gone`: peers confirmed dead; they are not asked."""
        self._id = part.id_in(app, instance)
        self._part = part
        self._first_ask = first_ask
        self._reasons = {index: "its holder is dead" for index, it in enumerate(part.holders) if it in gone}
        self._lost = set(self._reasons)
        self._good: set[int] = set()
        self._silent: set[int] = set()
        self._waiting: dict[int, int] = {}

    def begin(self) -> list[Ask | Audited]:
        for index in range(self._part.total):
            if index not in self._lost:
                self._waiting[self._first_ask + index] = index
        asks: list[Ask | Audited] = [
            Ask(self._part.holders[index], GetFragment(ask, fragment_of(self._id, index), is_probe=True))
            for ask, index in self._waiting.items()
        ]
        return asks or self._finish()

    def answered(self, ask: int, reply: Reply, body: object = b"") -> list[Ask | Audited]:
        """A holder's answer. One that nobody waits for is ignored."""
        index = self._waiting.pop(ask, None)
        if index is None:
            return []
        if isinstance(reply, Fragment):
            is_ours = reply.digest == self._part.digests[index]
            return self._count(self._good, index) if is_ours else self._count(self._lost, index, "it is another one")
        if isinstance(reply, NoFragment):
            return self._count(self._lost, index, reply.reason)
        return self._count(self._silent, index, str(getattr(reply, "reason", "it does not answer the question")))

    def unanswered(self, ask: int, reason: str) -> list[Ask | Audited]:
        index = self._waiting.pop(ask, None)
        return [] if index is None else self._count(self._silent, index, reason)

    def _count(self, among: set[int], index: int, reason: str = "") -> list[Ask | Audited]:
        among.add(index)
        if reason:
            self._reasons[index] = reason
        return [] if self._waiting else self._finish()

    def _finish(self) -> list[Ask | Audited]:
        good, lost, silent = (tuple(sorted(it)) for it in (self._good, self._lost, self._silent))
        return [Audited(self._part, good, lost, silent, tuple(sorted(self._reasons.items())))]
