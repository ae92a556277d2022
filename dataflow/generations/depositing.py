"""A snapshot on its way into enough hands, and back.

    store      encode, choose a shape and holders, seal, code (all on another thread); deposit slice by slice
    fetch      retrieve every slice of every part from its holders, at once; open and join them (on another thread)
    repair     a holder is dead: its fragments are rebuilt from others and given to somebody else
    let go     tell holders what nobody will ask for again

Which peers may hold is asked anew for every snapshot: neighbours come and go. A deposit that fails is tried again with
those who are left; if that fails too, the snapshot is given up, and the next one must not build on it.

Pure; the machines that do the asking are recovery/custody's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgpack

from dataflow.generations.effects import Ask, Do, Effect, Noted
from dataflow.generations.errands import ContactOf, Errands
from dataflow.generations.notes import INLINE_BYTES_MAX, PART_BYTES_MAX, Part
from overlay.ids import PeerId
from overlay.wire import WireError, struct
from recovery.coding.coded import Coded, code
from recovery.coding.sealing import seal
from recovery.coding.slices import slices
from recovery.custody.deposit import Deposit, Deposited
from recovery.custody.messages import DropFragments, Place
from recovery.custody.repair import Rebuild, Repair, Repaired
from recovery.custody.retrieval import Gathered, NotEnoughFragments, Retrieval
from recovery.holders import Candidate
from recovery.manifest import Part as Slice
from recovery.naming import PartId
from recovery.strategy import Plan, plan

DEPOSIT_S: Final = 10.0
"""What a holder may take for one fragment of four megabytes: a slow card and a slow link."""
TRIES_MAX: Final = 2
_SLICE: Final = struct(Slice)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A snapshot, coded and ready to be given away; or small enough to stay inline."""

    inline: bytes | None
    plan: Plan | None
    slices: tuple[tuple[PartId, Coded], ...]


@dataclass(frozen=True, slots=True)
class Custody:
    """What depositing needs to know of this peer and of the app's life."""

    errands: Errands
    life: str
    secret: bytes
    me: Callable[[], Candidate]
    candidates: Callable[[], Sequence[Candidate]]
    contact_of: ContactOf

    def store(
        self,
        instance: str,
        generation: int,
        epoch: int,
        encode: Callable[[], bytes],
        done: Callable[[Part | None, float], list[Effect]],
    ) -> list[Effect]:
        """`done` gets the part as the record shall have it, or None if it could not be stored."""

        me, candidates = self.me(), list(self.candidates())  # now: the work is done on another thread

        def work() -> _Prepared:
            return self._prepare(instance, generation, epoch, encode(), me, candidates)

        def then(result: Any, now: float) -> list[Effect]:
            if isinstance(result, BaseException):
                return [Noted(self.life, "not-stored", f"{instance}: {result}"), *done(None, now)]
            if result.inline is not None:
                return done(Part(generation, epoch, True, result.inline), now)
            return _Depositing(self, instance, generation, epoch, result, done).begin(now)

        return [Do(("store", self.life, instance), work, then)]

    def _prepare(
        self, instance: str, generation: int, epoch: int, data: bytes, me: Candidate, candidates: list[Candidate]
    ) -> _Prepared:
        """On another thread: it takes a millisecond a megabyte, or three."""
        if len(data) <= INLINE_BYTES_MAX:
            return _Prepared(data, None, ())
        shape = plan(me=me, candidates=candidates, state_bytes=len(data))
        coded = []
        for number, piece in enumerate(slices(data, needed=max(1, shape.needed))):
            part = PartId(self.life, instance, generation, epoch, number)
            sealed = seal(self.secret, part, piece)
            coded.append((part, code(sealed, needed=max(1, shape.needed), total=max(1, shape.total))))
        return _Prepared(None, shape, tuple(coded))

    def fetch(
        self, instance: str, parts: Sequence[Part], epoch: int, done: Callable[[Any, float], list[Effect]], now: float
    ) -> list[Effect]:
        """`done` gets the bytes of each part in order, or a `NotEnoughFragments`, or what else went wrong."""
        return _Fetching(self, instance, parts, epoch, done).begin(now)

    def repair(
        self, instance: str, part: Part, gone: PeerId, done: Callable[[Part | None, float], list[Effect]], now: float
    ) -> list[Effect]:
        """`done` gets the part with its new holders, or None if nothing came of it: then it is as it was."""
        if part.is_inline:
            return []
        found = unpack_slices(part.data)
        if not any(gone in it.holders for it in found):
            return []
        return _Repairing(self, instance, part, found, gone, done).begin(now)

    def let_go(self, instance: str, gone: Sequence[Part], kept: Sequence[Part]) -> list[Effect]:
        """Holders may drop all but `kept`. Nobody waits for it: what one drop misses the next one takes."""
        keep = [it for part in kept if not part.is_inline for it in unpack_slices(part.data)]
        old = [it for part in gone if not part.is_inline for it in unpack_slices(part.data)]
        if not old:
            return []
        floor = max((it.generation, it.epoch) for it in old)
        below = tuple(Place(*it.place) for it in keep if (it.generation, it.epoch) <= floor)
        holders = sorted({peer for it in old for peer in it.holders})
        out: list[Effect] = []
        for peer in holders:
            request = DropFragments(self.errands.number(), self.life, instance, floor[0], floor[1] + 1, below)
            out.append(self.errands.put(_ask(self, peer, request), lambda *_: [], lambda *_: []))
        return out


class _Depositing:
    """All slices of one snapshot, each until every fragment of it has a receipt."""

    def __init__(
        self,
        custody: Custody,
        instance: str,
        generation: int,
        epoch: int,
        prepared: _Prepared,
        done: Callable[[Part | None, float], list[Effect]],
    ) -> None:
        self._custody = custody
        self._where = (generation, epoch)
        self._name = instance
        self._prepared = prepared
        self._done = done
        self._slices: dict[int, Slice] = {}
        self._tries = 0
        self._is_over = False

    def begin(self, now: float) -> list[Effect]:
        return [effect for at in range(len(self._prepared.slices)) for effect in self._deposit(at, now)]

    def _deposit(self, at: int, now: float) -> list[Effect]:
        custody, (part, coded) = self._custody, self._prepared.slices[at]
        shape = self._prepared.plan
        assert shape is not None
        candidates = list(custody.candidates())
        me = custody.me()
        wished = dict(enumerate(shape.holders)) if self._tries == 0 and shape.holders else None
        is_alone = shape.holders == (me.peer,)
        machine = Deposit(
            part,
            "base" if at == 0 else "more",
            coded.shape,
            dict(enumerate(coded.fragments)),
            candidates=[me] if is_alone else candidates,
            first_ask=custody.errands.numbers(
                Deposit.asks_max(total=coded.shape.total, candidates=len(candidates) + 1)
            ),
            wished=wished,
            may_double=True,
        )

        def done(step: Any, then: float) -> list[Effect]:
            return self._on_slice(at, step, then)

        return custody.errands.carry(
            machine, machine.begin(), done, now=now, within_s=DEPOSIT_S, contact_of=custody.contact_of
        )

    def _on_slice(self, at: int, step: Any, now: float) -> list[Effect]:
        if self._is_over:
            return []
        if not isinstance(step, Deposited):
            self._tries += 1
            if self._tries < TRIES_MAX:
                return self._deposit(at, now)
            self._is_over = True
            return [Noted(self._custody.life, "not-stored", step.reason), *self._done(None, now)]
        self._slices[at] = step.part
        if len(self._slices) < len(self._prepared.slices):
            return []
        self._is_over = True
        packed = pack_slices([self._slices[it] for it in sorted(self._slices)])
        if len(packed) > PART_BYTES_MAX:
            told = Noted(self._custody.life, "not-stored", f"{self._name}: directions of {len(packed)} bytes")
            return [told, *self._done(None, now)]
        return self._done(Part(*self._where, False, packed), now)


class _Repairing:
    """The slices of one part that a dead peer held fragments of."""

    def __init__(
        self,
        custody: Custody,
        instance: str,
        part: Part,
        slices: Sequence[Slice],
        gone: PeerId,
        done: Callable[[Part | None, float], list[Effect]],
    ) -> None:
        self._custody = custody
        self._instance = instance
        self._part = part
        self._slices = list(slices)
        self._gone = gone
        self._done = done
        self._left = {at for at, it in enumerate(slices) if gone in it.holders}
        self._is_changed = False

    def begin(self, now: float) -> list[Effect]:
        return [effect for at in sorted(self._left) for effect in self._repair(at, now)]

    def _repair(self, at: int, now: float) -> list[Effect]:
        custody, it = self._custody, self._slices[at]
        candidates = list(custody.candidates())
        machine = Repair(
            custody.life,
            self._instance,
            it,
            epoch=self._part.epoch,
            gone={self._gone},
            candidates=candidates,
            first_ask=custody.errands.numbers(Repair.asks_max(total=it.total, candidates=len(candidates) + 1)),
            may_double=True,
        )
        return self._go_on(at, machine, machine.begin(), now)

    def _go_on(self, at: int, machine: Repair, steps: Any, now: float) -> list[Effect]:
        def done(step: Any, then: float) -> list[Effect]:
            if isinstance(step, Rebuild):
                return [
                    Do(("store", self._custody.life, self._instance), step.run, partial(self._rebuilt, at, machine))
                ]
            return self._on_slice(at, step, then)

        return self._custody.errands.carry(
            machine,
            steps,
            done,
            now=now,
            within_s=DEPOSIT_S,
            contact_of=self._custody.contact_of,
            has_bodies=True,
        )

    def _rebuilt(self, at: int, machine: Repair, result: Any, now: float) -> list[Effect]:
        if isinstance(result, BaseException):
            return self._on_slice(at, result, now)
        return self._go_on(at, machine, machine.rebuilt(result), now)

    def _on_slice(self, at: int, step: Any, now: float) -> list[Effect]:
        if isinstance(step, Repaired) and step.part != self._slices[at]:
            self._slices[at] = step.part
            self._is_changed = True
        self._left.discard(at)
        if self._left:
            return []
        packed = pack_slices(self._slices)
        if not self._is_changed or len(packed) > PART_BYTES_MAX:
            return self._done(None, now)
        return self._done(Part(self._part.generation, self._part.epoch, False, packed), now)


class _Fetching:
    def __init__(
        self,
        custody: Custody,
        instance: str,
        parts: Sequence[Part],
        epoch: int,
        done: Callable[[Any, float], list[Effect]],
    ) -> None:
        self._custody = custody
        self._instance = instance
        self._parts = parts
        self._epoch = epoch
        self._done = done
        self._gathered: dict[tuple[int, int], Gathered] = {}
        self._wanted: set[tuple[int, int]] = set()
        self._is_over = False

    def begin(self, now: float) -> list[Effect]:
        todo = []
        for at, part in enumerate(self._parts):
            if not part.is_inline:
                try:
                    found = unpack_slices(part.data)
                except WireError as error:
                    return self._done(error, now)
                todo += [((at, number), it) for number, it in enumerate(found)]
        self._wanted = {place for place, _ in todo}
        out: list[Effect] = []
        for place, it in todo:
            out += self._retrieve(place, it, now)
        return out or self._finish(now)

    def _retrieve(self, place: tuple[int, int], it: Slice, now: float) -> list[Effect]:
        custody = self._custody
        machine = Retrieval(
            custody.life, self._instance, it, epoch=self._epoch, first_ask=custody.errands.numbers(2 * it.total)
        )

        def done(step: Any, then: float) -> list[Effect]:
            if self._is_over:
                return []
            if isinstance(step, NotEnoughFragments):
                self._is_over = True
                return self._done(step, then)
            self._gathered[place] = step
            return self._finish(then) if self._gathered.keys() == self._wanted else []

        return custody.errands.carry(
            machine,
            machine.begin(),
            done,
            now=now,
            within_s=DEPOSIT_S,
            contact_of=custody.contact_of,
            has_bodies=True,
        )

    def _finish(self, now: float) -> list[Effect]:
        self._is_over = True
        if not self._wanted:
            return self._done([part.data for part in self._parts], now)

        def work() -> list[bytes]:
            return [self._open(at, part) for at, part in enumerate(self._parts)]

        def then(result: Any, at: float) -> list[Effect]:
            return self._done(result, at)

        return [Do(("fetch", self._custody.life, self._instance), work, then)]

    def _open(self, at: int, part: Part) -> bytes:
        if part.is_inline:
            return part.data
        mine = sorted(place for place in self._wanted if place[0] == at)
        return b"".join(self._gathered[place].data(self._custody.secret) for place in mine)


def _ask(custody: Custody, peer: PeerId, request: Any) -> Ask:
    return Ask(peer, request, within_s=DEPOSIT_S, contact=custody.contact_of(peer))


def pack_slices(found: Sequence[Slice]) -> bytes:
    raw: bytes = msgpack.packb([_SLICE.pack(it) for it in found])
    return raw


def unpack_slices(raw: bytes) -> list[Slice]:
    try:
        listed = msgpack.unpackb(raw, max_map_len=0, max_ext_len=0, max_array_len=256)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError("bad-part", str(error)[:80]) from None
    if type(listed) is not list or not listed:
        raise WireError("bad-part", "directions to no slice")
    return [_SLICE.unpack(it) for it in listed]
