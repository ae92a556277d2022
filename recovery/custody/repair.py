"""Find out which fragments of a part are lost, rebuild them from others, and give them to new holders.

    probe     every holder not known to be gone reads what it keeps and says whether it is good
    gather    `needed` good ones are fetched; no more, a repair is in no hurry
    rebuild   the shell computes the lost ones in a thread: `Rebuild`
    deposit   they go to new holders, as on the first day

Lost is what a confirmed dead peer kept, and what a holder says it has no more. Silence is not loss: half the
repairs of a ring would be for peers that were only rebooting. Nothing is decrypted: any peer that has the manifest
can repair.

The outcome is a part for a new manifest. Fragments keep their names and digests, so the old manifest stays true as
far as it goes, and a repair that nobody records has harmed nothing.

Pure: `begin`, `answered`, `unanswered`, `rebuilt`, until `Repaired` or `NotEnoughFragments` comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from overlay.frames import Buffer
from overlay.ids import PeerId
from recovery.custody.ask import Ask
from recovery.custody.deposit import Deposit, Deposited, Undeposited
from recovery.custody.messages import Fragment, GetFragment, NoFragment, Reply
from recovery.custody.retrieval import Gathered, NotEnoughFragments, Retrieval
from recovery.holders import Candidate
from recovery.manifest import Part
from recovery.naming import PartId, fragment_of


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Call `run` in a thread, and hand the outcome to `Repair.rebuilt`."""

    gathered: Gathered
    indices: tuple[int, ...]

    def run(self) -> dict[int, Buffer]:
        return self.gathered.rebuilt(self.indices)


@dataclass(frozen=True, slots=True)
class Repaired:
    """The part as it is held now. `lost` were lost; `unplaced` of them still are, and `reason` says why.

    Nothing lost: the part as it was. `silent` holders did not answer, and nothing is known of what they keep.
    """

    part: Part
    lost: tuple[int, ...]
    unplaced: tuple[int, ...]
    silent: tuple[PeerId, ...]
    strays: tuple[PeerId, ...]
    reason: str


Step = list[Ask | Rebuild | Repaired | NotEnoughFragments]


class Repair:
    def __init__(
        self,
        app: str,
        instance: str,
        part: Part,
        *,
        epoch: int,
        gone: Collection[PeerId],
        candidates: Iterable[Candidate],
        first_ask: int,
        may_double: bool = False,
    ) -> None:
        """`gone`: peers confirmed dead. `candidates`: who may take a fragment over, holders among them."""
        self._app = app
        self._instance = instance
        self._part = part
        self._epoch = epoch
        self._candidates = [it for it in candidates if it.peer not in gone]
        self._next_ask = first_ask
        self._may_double = may_double
        self._lost = {index for index, peer in enumerate(part.holders) if peer in gone}
        self._good: set[int] = set()
        self._silent: set[PeerId] = set()
        self._probing: dict[int, int] = {}
        self._work: Retrieval | Deposit | None = None

    @staticmethod
    def asks_max(*, total: int, candidates: int) -> int:
        """How many question numbers it may use."""
        return 2 * total + Deposit.asks_max(total=total, candidates=candidates)

    def begin(self) -> Step:
        step: Step = []
        for index, peer in enumerate(self._part.holders):
            if index not in self._lost:
                ask = self._numbers(1)
                self._probing[ask] = index
                step.append(Ask(peer, GetFragment(ask, fragment_of(self._id, index), is_probe=True)))
        return step or self._assess()

    def answered(self, ask: int, reply: Reply, body: Buffer = b"") -> Step:
        """An answer; one that nobody waits for is ignored."""
        if isinstance(self._work, Retrieval):
            return self._carry_on(self._work.answered(ask, reply, body))
        if isinstance(self._work, Deposit):
            return self._carry_on(self._work.answered(ask, reply))
        index = self._probing.pop(ask, None)
        if index is None:
            return []
        if isinstance(reply, Fragment) and reply.digest == self._part.digests[index]:
            self._good.add(index)
        elif isinstance(reply, Fragment | NoFragment):
            self._lost.add(index)
        else:
            self._silent.add(self._part.holders[index])
        return [] if self._probing else self._assess()

    def unanswered(self, ask: int, reason: str) -> Step:
        if self._work is not None:
            return self._carry_on(self._work.unanswered(ask, reason))
        index = self._probing.pop(ask, None)
        if index is None:
            return []
        self._silent.add(self._part.holders[index])
        return [] if self._probing else self._assess()

    def rebuilt(self, fragments: Mapping[int, Buffer]) -> Step:
        """`Rebuild` was run."""
        asks = Deposit.asks_max(total=self._part.total, candidates=len(self._candidates))
        self._work = Deposit(
            self._id,
            self._part.kind,
            self._part.shape,
            fragments,
            candidates=self._candidates,
            keeping={index: it for index, it in enumerate(self._part.holders) if index not in self._lost},
            first_ask=self._numbers(asks),
            may_double=self._may_double,
        )
        return self._carry_on(self._work.begin())

    def _assess(self) -> Step:
        if not self._lost:
            return [self._outcome(self._part, kept={}, strays=(), reason="")]
        self._work = Retrieval(
            self._app,
            self._instance,
            self._part,
            epoch=self._epoch,
            first_ask=self._numbers(self._part.total),
            indices=self._good,
            at_once=self._part.needed,
        )
        return self._carry_on(self._work.begin())

    def _carry_on(self, step: Iterable[object]) -> Step:
        """Hand on what the machine inside wants, and take its outcome for the next."""
        out: Step = []
        for it in step:
            if isinstance(it, Gathered):
                out.append(Rebuild(it, tuple(sorted(self._lost))))
            elif isinstance(it, Deposited):
                kept = {index: it.part.holders[index] for index in self._lost}
                out.append(self._outcome(it.part, kept=kept, strays=it.strays, reason=""))
            elif isinstance(it, Undeposited):
                holders = tuple(it.kept.get(index, peer) for index, peer in enumerate(self._part.holders))
                part = replace(self._part, holders=holders)
                out.append(self._outcome(part, kept=it.kept, strays=it.strays, reason=it.reason))
            elif isinstance(it, NotEnoughFragments):
                out.append(it.with_silent(self._silent))
            else:
                assert isinstance(it, Ask)
                out.append(it)
        return out

    def _outcome(
        self, part: Part, *, kept: Mapping[int, PeerId], strays: tuple[PeerId, ...], reason: str
    ) -> Repaired:
        unplaced = tuple(sorted(self._lost - set(kept)))
        return Repaired(part, tuple(sorted(self._lost)), unplaced, tuple(sorted(self._silent)), strays, reason)

    @property
    def _id(self) -> PartId:
        return self._part.id_in(self._app, self._instance)

    def _numbers(self, most: int) -> int:
        self._next_ask += most
        return self._next_ask - most
