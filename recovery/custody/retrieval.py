"""Get one part back: ask its holders in parallel, take the first good fragments that come.

A fragment counts if its digest is the manifest's. Whoever says "no", sends something else or stays silent is one
fragment fewer; when everybody has spoken and too few are good, that is data loss, and it is said with the numbers.
Silence is told apart from a "no": a silent holder may come back with what it keeps.

Pure: `begin`, then `answered` or `unanswered` for every `Ask`, until `Gathered` or `NotEnoughFragments` comes out.
Decoding is left to whoever has a thread for it: `Gathered.data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from overlay.frames import Buffer
from overlay.ids import PeerId, short
from recovery.coding.coded import rebuild, uncode_good
from recovery.coding.sealing import unseal
from recovery.custody.ask import Ask
from recovery.custody.messages import Fragment, GetFragment, NoFragment, Reply
from recovery.manifest import Part
from recovery.naming import PartId, fragment_of


class NotEnoughFragments(Exception):  # noqa: N818 (it says what is)
    """DATA_LOSS, unless silent holders come back. A value to machines; whoever waits for the data raises it."""

    def __init__(
        self, *, app: str, instance: str, epoch: int, needed: int, found: int, silent: Iterable[PeerId] = ()
    ) -> None:
        self.app = app
        self.instance = instance
        self.epoch = epoch
        self.needed = needed
        self.found = found
        self.silent = tuple(sorted(set(silent)))
        silent_ones = ", ".join(short(it) for it in self.silent)
        way_out = (
            f"bring back {silent_ones}, which did not answer"
            if self.silent
            else "every holder has answered, so only --unsafe, which gives this state up, goes on"
        )
        super().__init__(
            f"DATA_LOSS: {instance} of app {app[:12]}, epoch {epoch}: {needed} fragments are needed "
            f"and {found} were found; {way_out}"
        )

    def with_silent(self, peers: Iterable[PeerId]) -> NotEnoughFragments:
        return NotEnoughFragments(
            app=self.app,
            instance=self.instance,
            epoch=self.epoch,
            needed=self.needed,
            found=self.found,
            silent=(*self.silent, *peers),
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """Enough good fragments. What it computes takes milliseconds a megabyte: call it in a thread."""

    id: PartId
    part: Part
    fragments: Mapping[int, Buffer]

    def sealed(self) -> bytes:
        return uncode_good(self.fragments, self.part.shape)

    def data(self, key: bytes) -> bytes:
        return unseal(key, self.id, self.sealed())

    def rebuilt(self, indices: Iterable[int]) -> dict[int, Buffer]:
        """Other fragments of the same part, from these."""
        return rebuild(self.fragments, self.part.shape, indices)


Step = list[Ask | Gathered | NotEnoughFragments]


class Retrieval:
    def __init__(
        self,
        app: str,
        instance: str,
        part: Part,
        *,
        epoch: int,
        first_ask: int,
        indices: Iterable[int] | None = None,
        at_once: int | None = None,
    ) -> None:
        """`epoch`: that of the snapshot we restore, for the sentence. `indices`: which fragments may be asked for;
        `at_once`: how many of them at a time. By default all, at once: the quickest answers win."""
        self._id = part.id_in(app, instance)
        self._part = part
        self._epoch = epoch
        self._next_ask = first_ask
        self._left = sorted(range(part.total) if indices is None else indices)
        self._at_once = part.total if at_once is None else at_once
        self._waiting: dict[int, int] = {}
        self._good: dict[int, Buffer] = {}
        self._silent: set[PeerId] = set()
        self._is_done = False

    def begin(self) -> Step:
        return self._proceed()

    def answered(self, ask: int, reply: Reply, body: Buffer = b"") -> Step:
        """A holder's answer. One that nobody waits for is ignored: it came twice, or too late. Hashes the body."""
        index = self._waiting.pop(ask, None)
        if index is None or self._is_done:
            return []
        if isinstance(reply, Fragment):
            if self._part.shape.is_good(index, body):
                self._good[index] = body
        elif not isinstance(reply, NoFragment):  # it could not read it: maybe later
            self._silent.add(self._part.holders[index])
        return self._proceed()

    def unanswered(self, ask: int, reason: str) -> Step:
        """No answer came, and none will."""
        index = self._waiting.pop(ask, None)
        if index is None or self._is_done:
            return []
        self._silent.add(self._part.holders[index])
        return self._proceed()

    def _proceed(self) -> Step:
        if len(self._good) >= self._part.needed:
            self._is_done = True
            return [Gathered(self._id, self._part, dict(self._good))]
        step: Step = []
        while self._left and len(self._waiting) + len(self._good) < self._at_once:
            step.append(self._ask(self._left.pop(0)))
        if not self._waiting:
            self._is_done = True
            step.append(self._too_few())
        return step

    def _ask(self, index: int) -> Ask:
        self._waiting[self._next_ask] = index
        request = GetFragment(self._next_ask, fragment_of(self._id, index), is_probe=False)
        self._next_ask += 1
        return Ask(self._part.holders[index], request)

    def _too_few(self) -> NotEnoughFragments:
        return NotEnoughFragments(
            app=self._id.app,
            instance=self._id.instance,
            epoch=self._epoch,
            needed=self._part.needed,
            found=len(self._good),
            silent=self._silent,
        )
