"""Rows that were behind the watermark when they were read, each with the watermark of that moment.

Whether a row is late depends on the rows before it, not on the batch it came in. A batch says so itself: where its
rows behind the watermark are, and what the watermark was. All other rows were in time, and are so for everybody.
An operator decides about such rows at once, or hands them on, or has the batch cut in front of them (`in_turn`).

Rejected: cutting every batch in front of each such row; one row in seventy makes batches of seventy rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataflow.batches import Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """Positions in a batch, ascending, and the watermark in front of each, which never falls."""

    rows: Ints
    watermarks_us: Ints

    def only(self, which: Bools) -> Behind | None:
        """Some of them, in the same batch."""
        return Behind(self.rows[which], self.watermarks_us[which]) if which.any() else None

    def after_filter(self, kept: Bools) -> Behind | None:
        """Where they are when only these rows of the batch are kept."""
        left = self.only(kept[self.rows])
        return Behind((np.cumsum(kept) - 1)[left.rows], left.watermarks_us) if left else None

    def after_cut(self, row: int, watermark_us: int) -> Behind | None:
        """Where they are when the batch is cut there and the watermark known: those it does not speak of."""
        left = self.only((self.rows >= row) & (self.watermarks_us > watermark_us))
        return Behind(left.rows - row, left.watermarks_us) if left else None

    def cuts(self) -> list[tuple[int, int]]:
        """(position, watermark): where the watermark has to be known before the next row is taken."""
        watermarks, first = np.unique(self.watermarks_us, return_index=True)
        return list(zip(self.rows[first].tolist(), watermarks.tolist(), strict=True))


def joined(parts: Sequence[tuple[int, Behind | None]]) -> Behind | None:
    """Of batches (number of rows, those behind) that are put together."""
    rows: list[Ints] = []
    watermarks: list[Ints] = []
    offset = 0
    for count, behind in parts:
        if behind:
            rows.append(behind.rows + offset)
            watermarks.append(behind.watermarks_us)
        offset += count
    return Behind(np.concatenate(rows), np.concatenate(watermarks)) if rows else None
