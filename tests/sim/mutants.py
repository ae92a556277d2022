"""Breakages of the exactly-once protocol, one for each of its rules (DESIGN 4): the chaos must see every one.

Each is a patch of a product method, made here and nowhere else. `Mutant.seed` is one that catches it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dataflow.engine.instance import Instance
from dataflow.generations import depositing
from dataflow.generations.finished import FinishedStream
from dataflow.generations.keeper import Keeper
from dataflow.generations.node import AppNode
from dataflow.generations.notes import Part
from dataflow.generations.residency import Residency, Trim
from dataflow.hosting.channel import Channel
from dataflow.hosting.edge_frames import EdgeKind
from dataflow.hosting.inbound import Inbound
from dataflow.hosting.share import Share
from dataflow.messages import Token
from recovery.custody.holder import Holder
from recovery.manifest import part_of
from recovery.naming import PartId
from sim.disk import SimDisk

Patch = Callable[[pytest.MonkeyPatch], None]


def no_seq_check(patch: pytest.MonkeyPatch) -> None:
    def accept(self: Inbound, header: Any, body: Any) -> Any:
        self.last = max(self.last, header.seq)
        return self._take(header, body)

    patch.setattr(Inbound, "accept", accept)


def trim_before_commit(patch: pytest.MonkeyPatch) -> None:
    synced = Residency.synced

    def early(self: Residency, instance: Any, epoch: int) -> Any:
        offset = self.feeds[instance].offset_of(epoch)
        out = synced(self, instance, epoch)
        return [*out, Trim(instance, offset)] if offset is not None else out

    patch.setattr(Residency, "synced", early)


def fragment_key_without_epoch(patch: pytest.MonkeyPatch) -> None:
    """One name for all snapshots of an instance: the last one written is there."""
    put = Holder._put
    patch.setattr(depositing, "PartId", lambda life, it, generation, epoch, number: PartId(life, it, 1, 1, number))

    def overwrite(self: Holder, request: Any, body: Any) -> Any:
        if request.fragment in self._held:
            self._remove(request.fragment)
        return put(self, request, body)

    patch.setattr(Holder, "_put", overwrite)


def expose_before_commit(patch: pytest.MonkeyPatch) -> None:
    close = FinishedStream.close

    def early(self: FinishedStream, epoch: int) -> Any:
        part = close(self, epoch)
        self.show(epoch)
        return part

    patch.setattr(FinishedStream, "close", early)


def no_generation_check(patch: pytest.MonkeyPatch) -> None:
    on_frame = Share._on_frame

    def any_generation(self: Share, sender: Any, header: Any, body: Any) -> Any:
        return on_frame(self, sender, replace(header, generation=self.assignment.generation), body)

    patch.setattr(Share, "_on_frame", any_generation)


def fold_uncommitted_segment(patch: pytest.MonkeyPatch) -> None:
    roll_back = FinishedStream.roll_back

    def fold(self: FinishedStream, end: int) -> bool:
        rows = [batch for segment in self._segments for batch in segment.batches] + self._aside
        is_whole = roll_back(self, end)
        for batch in rows:
            self.take(batch)
        return is_whole

    patch.setattr(FinishedStream, "roll_back", fold)


def token_outside_the_sequence(patch: pytest.MonkeyPatch) -> None:
    put = Channel.put

    def overtake(self: Channel, item: Any, arrival: int) -> None:
        put(self, item, arrival)
        if item.kind is EdgeKind.TOKEN:
            self._items.rotate(1)

    patch.setattr(Channel, "put", overtake)


def no_alignment(patch: pytest.MonkeyPatch) -> None:
    def first_token(self: Instance) -> Any:
        epoch = max(token for token in self._token if token is not None)
        self._token = [None] * len(self._token)
        if epoch <= getattr(self.operator, "last_token", 0):
            return []
        self.operator.last_token = epoch  # type: ignore[attr-defined]
        self._aligned = epoch
        return self._to_all(Token(epoch))

    patch.setattr(Instance, "_align", first_token)


def no_boot_id(patch: pytest.MonkeyPatch) -> None:
    from dataflow.deploying.charter import unpack_charter

    patch.setattr(AppNode, "_charter", lambda self, it, body: unpack_charter(body))
    patch.setattr(Share, "_check_boot", lambda self, boot_ms: None)


def last_writer_wins(patch: pytest.MonkeyPatch) -> None:
    propose = Keeper._propose

    def blind(self: Keeper, change: Any) -> Any:
        known = self.record
        return propose(self, lambda stands: change(known))

    patch.setattr(Keeper, "_propose", blind)


def ack_not_bound_to_generation(patch: pytest.MonkeyPatch) -> None:
    acknowledged = Keeper.acknowledged

    def anyones(self: Keeper, sender: Any, generation: int, epoch: int, notes: Any, now: float) -> Any:
        return acknowledged(self, sender, self.record.generation, epoch, notes, now)

    patch.setattr(Keeper, "acknowledged", anyones)


def ack_without_receipts(patch: pytest.MonkeyPatch) -> None:
    begin = depositing._Depositing.begin

    def at_once(self: Any, now: float) -> Any:
        asked = begin(self, now)
        if self._is_over:
            return asked
        self._is_over = True
        shape = self._prepared.plan
        slices = [part_of(part, "base", coded.shape, shape.holders) for part, coded in self._prepared.slices]
        generation, epoch = self._where
        part = Part(generation, epoch, False, depositing.pack_slices(slices))
        return [*asked, *self._done(part, now)]

    patch.setattr(depositing._Depositing, "begin", at_once)


def register_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """Half of the writes to a register are not there after a crash; what was there before is."""
    put = SimDisk.put

    def lazy(self: SimDisk, name: str, data: Any) -> None:
        old = self._files.get(name)
        put(self, name, data)
        if name.startswith("register-"):
            self._renames[name] = old

    patch.setattr(SimDisk, "put", lazy)


def keeper_never_reads_again(patch: pytest.MonkeyPatch) -> None:
    def deaf(self: Keeper, record: Any, now: float) -> Any:
        return self._on_record(self.record, now, is_ours=False)

    patch.setattr(Keeper, "refused", deaf)


ALL: dict[str, Patch] = {
    it.__name__: it
    for it in (
        no_seq_check,
        trim_before_commit,
        fragment_key_without_epoch,
        expose_before_commit,
        no_generation_check,
        fold_uncommitted_segment,
        token_outside_the_sequence,
        no_alignment,
        no_boot_id,
        last_writer_wins,
        ack_not_bound_to_generation,
        ack_without_receipts,
        register_not_fsynced,
        keeper_never_reads_again,
    )
}
