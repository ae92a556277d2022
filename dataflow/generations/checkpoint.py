"""One host's part of an epoch: every instance here has a note for it, then it is acknowledged, as one.

An instance that has ended has one note for all epochs to come. A later epoch makes earlier ones pointless, but their
notes stay until something is committed: the keeper may be behind.

Promises: what is complete is complete for good, and gives the same notes however often it is asked for; an epoch is
complete only if *all* instances have a note of it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dataflow.generations.notes import Note
from dataflow.hosting.assignment import InstanceId

EPOCHS_MAX: Final = 64
"""Unfinished epochs that are remembered; a keeper that begins more without a commit loses the oldest."""


class Checkpoint:
    """
    >>> a, b = InstanceId(0, 0), InstanceId(1, 0)
    >>> checkpoint = Checkpoint([a, b])
    >>> checkpoint.noted(a, 1, Note()), checkpoint.final(b, Note(is_final=True)), checkpoint.noted(a, 2, Note(offset=3))
    (False, True, True)
    >>> checkpoint.notes(2)[a].offset, checkpoint.latest
    (3, 2)
    """

    def __init__(self, instances: Iterable[InstanceId]) -> None:
        self._instances = frozenset(instances)
        self._notes: dict[int, dict[InstanceId, Note]] = {}
        self._finals: dict[InstanceId, Note] = {}

    @property
    def latest(self) -> int | None:
        """The last epoch that is complete here."""
        return max((epoch for epoch in self._notes if self.is_complete(epoch)), default=None)

    @property
    def is_final(self) -> bool:
        """Has everything here ended, and been stored?"""
        return self._finals.keys() == self._instances

    def begun(self, epoch: int) -> None:
        """The epoch is under way; perhaps everything here has ended already."""
        self._notes.setdefault(epoch, {})
        for old in sorted(self._notes)[:-EPOCHS_MAX]:
            del self._notes[old]

    def noted(self, instance: InstanceId, epoch: int, note: Note) -> bool:
        """True if that completes something."""
        assert instance in self._instances
        self._notes.setdefault(epoch, {})[instance] = note
        return self.is_complete(epoch)

    def final(self, instance: InstanceId, note: Note) -> bool:
        assert instance in self._instances and note.is_final
        self._finals[instance] = note
        return any(self.is_complete(epoch) for epoch in self._notes)

    def is_complete(self, epoch: int) -> bool:
        return epoch in self._notes and self._instances <= {*self._notes[epoch], *self._finals}

    def notes(self, epoch: int) -> Mapping[InstanceId, Note]:
        assert self.is_complete(epoch)
        return {it: self._notes[epoch].get(it) or self._finals[it] for it in sorted(self._instances)}

    def committed(self, epoch: int) -> None:
        for old in [it for it in self._notes if it <= epoch]:
            del self._notes[old]
