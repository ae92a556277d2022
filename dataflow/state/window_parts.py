"""Overlapping windows put together from their panes.

Two ways, chosen by size. Few large windows: each is combined from at most 2 log2(panes) blocks of aligned panes;
blocks are kept and shared by the windows that overlap, so a pane is combined about once however many windows
contain it. Many small windows (a slow stream that is replayed fast): all are combined in one go, each entry
repeated for the windows it is part of.

Blocks follow from panes, so they are never part of a snapshot, and their sums do not depend on where one was taken.
Rejected: two stacks (sums would differ in the last bit after a restore); subtracting panes that leave (not exact).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataflow.batches import AnyArray, Ints
from dataflow.state.accumulators import Accumulators, Aggregate
from dataflow.state.index import first_appearances
from dataflow.state.matching import expand
from dataflow.state.pane_windows import PaneWindows, cover
from dataflow.state.panes import Panes

BLOCK_PANES_MIN = 8  # below this, a window is put together from its panes directly
WINDOWS_AT_ONCE_MIN = 8
WINDOWS_AT_ONCE_MAX = 512
ENTRIES_PER_WINDOW_MAX = 1024  # larger windows are not worth repeating entries for
Partial = dict[str, AnyArray]
Part = tuple[Ints, Partial]


class WindowParts:
    """Partial results of windows, over the panes that are open."""

    def __init__(self, panes: Panes, aggregates: Sequence[Aggregate], shape: PaneWindows) -> None:
        self._panes = panes
        self._aggregates = aggregates
        self._shape = shape
        self._blocks: dict[tuple[int, int], Part] = {}
        self._blocks_end = 0

    def stretch(self, start: int, next_start: int) -> int:
        """How far to go at once: the end of a run of small windows, or one window."""
        shape, panes = self._shape, self._panes.open_panes()
        windows = (next_start - start) // shape.slide
        span = panes[-1] - panes[0] + 1
        entries_per_window = len(self._panes) * min(shape.size, span) // span
        if windows < WINDOWS_AT_ONCE_MIN or entries_per_window > ENTRIES_PER_WINDOW_MAX:
            return start + shape.slide
        return start + min(windows, WINDOWS_AT_ONCE_MAX) * shape.slide

    def between(self, start: int, end: int) -> tuple[Ints, Ints, Partial]:
        """Key slots, window starts and partial results of the windows that begin in [start, end)."""
        if end - start > self._shape.slide:
            return self._many(start, end)
        slots, partial = self._window(start)
        return slots, np.full(len(slots), start), partial

    def forget(self, panes: Ints) -> None:
        """Rows came for these panes: what was combined from them before no longer holds."""
        if not self._blocks:
            return
        for pane in panes[panes < self._blocks_end].tolist():
            for level in range(1, self._shape.size.bit_length() + 1):
                self._blocks.pop((level, pane >> level), None)

    def forget_before(self, start: int) -> None:
        if self._blocks:
            self._blocks = {at: block for at, block in self._blocks.items() if (at[1] + 1) << at[0] > start}

    def _many(self, start: int, end: int) -> tuple[Ints, Ints, Partial]:
        shape = self._shape
        panes = [pane for pane in self._panes.open_panes() if pane < end - shape.slide + shape.size]
        entries = np.concatenate([self._panes.members(pane) for pane in panes])
        pane_of = self._panes.panes_of(entries)
        first = np.maximum(-((shape.size - 1 - pane_of) // shape.slide), start // shape.slide)
        last = np.minimum(pane_of // shape.slide, end // shape.slide - 1)
        owner, number = expand(first, np.maximum(first, last + 1))
        order = np.argsort(number, kind="stable")  # by window, then as rows appeared
        owner, number = owner[order], number[order]
        slots = self._panes.key_slots(entries)[owner]
        heads, group = first_appearances((number - start // shape.slide) * self._panes.keys.capacity + slots)
        sums = self._sums(len(heads))
        sums.combine(group, self._panes.sums.take(entries[owner]))
        return slots[heads], number[heads] * shape.slide, sums.take(np.arange(len(heads)))

    def _window(self, start: int) -> Part:
        end = start + self._shape.size
        if self._shape.size < BLOCK_PANES_MIN:
            return self._join([self._pane(pane) for pane in range(start, end)])
        return self._join([self._block(level, index) for level, index in cover(start, end)])

    def _pane(self, pane: int) -> Part:
        entries = self._panes.members(pane)
        return self._panes.key_slots(entries), self._panes.sums.take(entries)

    def _block(self, level: int, index: int) -> Part:
        if level == 0:
            return self._pane(index)
        block = self._blocks.get((level, index))
        if block is None:
            block = self._join([self._block(level - 1, 2 * index), self._block(level - 1, 2 * index + 1)])
            self._blocks[level, index] = block
            self._blocks_end = max(self._blocks_end, (index + 1) << level)
        return block

    def _join(self, parts: list[Part]) -> Part:
        """Partial results of the same keys as one, keys in order of first appearance."""
        some = [part for part in parts if len(part[0])]
        if len(some) < 2:
            return some[0] if some else parts[0]
        slots = np.concatenate([part[0] for part in some])
        at = np.empty(self._panes.keys.capacity, np.int64)
        at[slots[::-1]] = np.arange(len(slots))[::-1]
        heads = slots[at[slots] == np.arange(len(slots))]
        at[heads] = np.arange(len(heads))
        sums = self._sums(len(heads))
        for part_slots, partial in some:
            sums.combine(at[part_slots], partial)
        return heads, sums.take(np.arange(len(heads)))

    def _sums(self, groups: int) -> Accumulators:
        sums = Accumulators(self._aggregates)
        sums.grow(groups)
        return sums
