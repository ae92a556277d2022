"""Find out which fragments of a part are lost, rebuild them from others, and give them to new holders.

    audit     every holder not known to be dead says whether what it keeps is good (audit.py)
    gather    `needed` good ones are fetched; no more, a repair is in no hurry
    rebuild   the shell computes the lost ones in a thread: `Rebuild`
    deposit   they go to new holders, as on the first day

Nothing is decrypted: any peer that has the manifest can repair. The outcome is a part for a new manifest. Fragments
keep their names and digests, so the old manifest stays true as far as it goes, and a repair that nobody records has
harmed nothing.

Pure: `begin`, `answered`, `unanswered`, `rebuilt`, until `Repaired` or `NotEnoughFragments` comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from overlay.frames import Buffer
from overlay.ids import PeerId
from recovery.custody.ask import Ask
from recovery.custody.audit import Audit, Audited
from recovery.custody.deposit import Deposit, Deposited, Undeposited
from recovery.custody.messages import Reply
from recovery.custody.retrieval import Gathered, NotEnoughFragments, Retrieval
from recovery.holders import Candidate
from recovery.manifest import Part
from recovery.naming import PartId


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
        self._work: Audit | Retrieval | Deposit = Audit(
            app, instance, part, gone=gone, first_ask=self._numbers(part.total)
        )
        self._lost: tuple[int, ...] = ()
        self._silent: tuple[PeerId, ...] = ()

    @staticmethod
    def asks_max(*, total: int, candidates: int) -> int:
        """How many question numbers it may use."""
        return 2 * total + Deposit.asks_max(total=total, candidates=candidates)

    def begin(self) -> Step:
        return self._carry_on(self._work.begin())

    def answered(self, ask: int, reply: Reply, body: Buffer = b"") -> Step:
        """An answer; one that nobody waits for is ignored."""
        if isinstance(self._work, Deposit):
            return self._carry_on(self._work.answered(ask, reply))
        return self._carry_on(self._work.answered(ask, reply, body))

    def unanswered(self, ask: int, reason: str) -> Step:
        return self._carry_on(self._work.unanswered(ask, reason))

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

    def _gather(self, audited: Audited) -> Step:
        self._lost = audited.lost
        self._silent = audited.silent_peers
        if not self._lost:
            return [self._outcome(self._part, kept={}, strays=(), reason="")]
        self._work = Retrieval(
            self._app,
            self._instance,
            self._part,
            epoch=self._epoch,
            first_ask=self._numbers(self._part.total),
            indices=audited.good,
            at_once=self._part.needed,
        )
        return self._carry_on(self._work.begin())

    def _carry_on(self, step: Iterable[object]) -> Step:
        """Hand on what the machine inside wants, and take its outcome for the next."""
        out: Step = []
        for it in step:
            if isinstance(it, Audited):
                out += self._gather(it)
            elif isinstance(it, Gathered):
                out.append(Rebuild(it, self._lost))
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
        unplaced = tuple(index for index in self._lost if index not in kept)
        return Repaired(part, self._lost, unplaced, self._silent, strays, reason)

    @property
    def _id(self) -> PartId:
        return self._part.id_in(self._app, self._instance)

    def _numbers(self, most: int) -> int:
        self._next_ask += most
        return self._next_ask - most
