"""One instance's snapshots, epoch after epoch: a base, then what changed since the one before.

At an aligned token `take` copies what changed (the pause), and gives a `Taken`: what to store under which name, and the
names of all parts that a restore of this epoch needs, oldest first. It is encoded later, on another thread.

    epoch    4      5       6       7       8
    part     base   delta   delta   base    delta
    needs    4      4 5     4 5 6   7       7 8

A chain is over snapshots that were *taken*. Epoch 5 may never be committed: its part is still needed by 6, so it is
stored all the same. If it cannot be stored, `rebase` makes the next snapshot a base; until then no later epoch can
be acknowledged.

When deltas together are more than `DELTAS_SHARE_MAX` of the base, or too many, the next snapshot is a base. So the
bytes of an epoch are on average 1.8 times what changed, and a restore reads at most 2.25 times the state.
A state that is small has a base each time: its delta would save nothing.

After a restore the chain goes on over the restored parts, which are in custody already: a base of every instance just
then would be the most traffic at the worst moment. Names carry the generation, so a part of the old one that was never
committed is not taken for one of the new. (State that came by `merge`, from other key ranges, has no parts: a base.)

Rejected: deltas since the last *committed* epoch (two sets of dirty bits, and every part overlaps the one before);
folding parts into a base elsewhere (the state a second time in memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import msgpack

from dataflow.engine.instance import Instance
from dataflow.errors import AppError
from dataflow.state.snapshot import Snapshot, Stateful

DELTAS_SHARE_MAX: Final = 1.25
DELTAS_MAX: Final = 32
"""Each part is stored and fetched by itself, and named in the record of every epoch: more would swell both."""
SMALL_BYTES: Final = 1 << 16
FORMAT: Final = 1


class PartName(NamedTuple):
    generation: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The snapshot of one instance at one epoch."""

    needs: tuple[PartName, ...]
    is_base: bool
    marks: bytes
    snapshot: Snapshot | None  # None for an operator without state

    @property
    def name(self) -> PartName:
        """Under which its own part is stored."""
        return self.needs[-1]

    @property
    def size_bytes(self) -> int:
        return len(self.marks) + (self.snapshot.size_bytes if self.snapshot else 0)

    def encode(self) -> bytes:
        """The part as bytes. Takes time, and may be called on any thread: nothing in here changes any more."""
        state = self.snapshot.encode() if self.snapshot else None
        return cast(bytes, msgpack.packb([FORMAT, self.is_base, self.marks, state]))


class SnapshotChain:
    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._parts: list[PartName] = []
        self._base_bytes = 0
        self._deltas_bytes = 0

    @property
    def needs(self) -> tuple[PartName, ...]:
        """The parts that the last snapshot needs; older ones may go once it is committed."""
        return tuple(self._parts)

    def take(self, generation: int, epoch: int) -> Taken:
        """At an aligned token before `release`, or of an instance that has ended."""
        name = PartName(generation, epoch)
        assert not self._parts or self._parts[-1] < name, f"{name} was taken already"
        operator, is_base = self._instance.operator, self._is_base_due()
        snapshot = operator.snapshot(changed=not is_base) if isinstance(operator, Stateful) else None
        if is_base:
            self._parts, self._deltas_bytes = [], 0
        self._parts.append(name)
        taken = Taken(self.needs, is_base, self._instance.marks(), snapshot)
        if is_base:
            self._base_bytes = taken.size_bytes
        else:
            self._deltas_bytes += taken.size_bytes
        return taken

    def rebase(self) -> None:
        """A part could not be stored: the next snapshot must not need it."""
        self._parts = []

    def restore(self, names: Sequence[PartName], parts: Sequence[bytes]) -> None:
        """Into a new instance, from the parts that its manifest names, oldest first."""
        assert len(names) == len(parts)
        states, marks = _states_and_marks(parts)
        operator = self._instance.operator
        if isinstance(operator, Stateful) != (states[0] is not None):
            raise AppError(f"a snapshot of an operator {'without' if states[0] is None else 'with'} state does not fit")
        if isinstance(operator, Stateful):
            base, *deltas = cast(list[bytes], states)
            operator.restore(base, deltas)
        self._instance.restore_marks(marks)
        self._parts = list(names)
        self._base_bytes, *sizes = (len(part) for part in parts)
        self._deltas_bytes = sum(sizes)

    def _is_base_due(self) -> bool:
        return (
            not self._parts
            or self._base_bytes < SMALL_BYTES
            or len(self._parts) > DELTAS_MAX
            or self._deltas_bytes > DELTAS_SHARE_MAX * self._base_bytes
        )


def _states_and_marks(parts: Sequence[bytes]) -> tuple[list[bytes | None], bytes]:
    states: list[bytes | None] = []
    marks = b""
    try:
        for at, part in enumerate(parts):
            version, is_base, marks, state = msgpack.unpackb(part)
            if version != FORMAT:
                raise ValueError(f"format {version}")
            if is_base != (at == 0):
                raise ValueError(f"part {at + 1} of {len(parts)} is a {'base' if is_base else 'delta'}")
            states.append(state)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise AppError(f"these bytes are not the parts of a snapshot: {error}") from error
    if not states or any((state is None) != (states[0] is None) for state in states):
        raise AppError("these bytes are not the parts of one snapshot")
    return states, marks
