"""Is what registers decide one line, that never goes back?

Every record that a keeper takes for decided is looked at. For one keeper they only grow; between keepers, one who is
behind is allowed, but not another truth: one generation and epoch means one assignment and one set of notes, and a
later generation never begins below an epoch that an earlier one has committed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from dataflow.generations.record import Phase, Record
from dataflow.hosting.assignment import InstanceId


class Records:
    def __init__(self) -> None:
        self.latest: Record | None = None
        self.ends: dict[InstanceId, int] = {}
        """How many rows of each sink are committed, at the latest."""
        self.was_away = False
        """Was a source ever away in an epoch that was committed?"""
        self._of: dict[Hashable, Record] = {}
        self._seen: dict[tuple[int, int], bytes] = {}

    @property
    def generations(self) -> set[int]:
        return {generation for generation, _ in self._seen}

    def look(self, keeper: Hashable, record: Record) -> str | None:
        """What is wrong with it, if anything is."""
        before = self._of.get(keeper)
        if before is record:
            return None
        self._of[keeper] = record
        if before is not None and (record.generation, record.epoch) < (before.generation, before.epoch):
            return (
                f"the register went back from generation {before.generation}, epoch {before.epoch} "
                f"to {record.generation}, {record.epoch}"
            )
        return self.see(record)

    def see(self, record: Record) -> str | None:
        place = (record.generation, record.epoch)
        plain = replace(record, phase=Phase.RUNNING, reason="", members=(), contacts=()).pack()
        known = self._seen.setdefault(place, plain)
        if known != plain:
            return f"generation {place[0]}, epoch {place[1]} was decided twice, and differently"
        for generation, epoch in self._seen:
            if (generation < place[0] and epoch > place[1]) or (generation > place[0] and epoch < place[1]):
                return f"generation {generation} has epoch {epoch}, but generation {place[0]} has {place[1]}"
        self.was_away = self.was_away or record.has_sources_away
        for it, note in record.notes.items():
            if note.end is not None:
                self.ends[it] = max(self.ends.get(it, 0), note.end)
        latest = (0, 0) if self.latest is None else (self.latest.generation, self.latest.epoch)
        if place > latest or (place == latest and record.phase is not Phase.RUNNING):
            self.latest = record
        return None
