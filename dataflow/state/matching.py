"""Which rows of two batches belong together: equal keys, as pairs of row numbers, without a sort of the rows.

Keys become small numbers, and a table with a cell for each number tells where its rows are. Pairs come ordered by the
left row, then by the right one, so joins are deterministic.
Rejected: Table.join (its order is not defined, and it starts threads of its own); sorting and searching keys, which
cost W3 half of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import Bools, Ints, int64s, is_int64_like

CODES_PER_ROW_MAX = 4  # codes may leave gaps, but a table with a cell for each must stay about as long as the rows


def codes(columns: Sequence[pa.Array], rows: int, *, nulls_match: bool, by_appearance: bool = False) -> Ints:
    """A number a row, equal where the keys are equal; -1 for a null key unless nulls match.

    Numbers are small: below CODES_PER_ROW_MAX times the rows. Their order means nothing unless they shall follow the
    first appearance of their keys.
    """
    total: Ints = np.zeros(rows, np.int64)
    null = np.zeros(rows, np.bool_)
    size = 1
    for column in columns:
        small = None if by_appearance else _offsets(column)
        part, part_size = small or _encoded(column, null, nulls_match=nulls_match)
        total = total * part_size + part if size > 1 else part
        size *= part_size
        if size > rows * CODES_PER_ROW_MAX:
            total, size = _encoded(pa.array(total), null, nulls_match=True)
    if by_appearance and len(columns) > 1:
        total, size = _encoded(pa.array(total), null, nulls_match=True)
    if null.any():
        total = np.where(null, -1, total)
    return total


def _offsets(column: pa.Array) -> tuple[Ints, int] | None:
    """Ids, windows and times of one batch often lie close together: they are small numbers but for their beginning."""
    if not is_int64_like(column.type) or column.null_count or not len(column):
        return None
    values = int64s(column)
    lowest, highest = int(values.min()), int(values.max())
    return (values - lowest, highest - lowest + 1) if highest - lowest < len(column) * CODES_PER_ROW_MAX else None


def _encoded(column: pa.Array, null: Bools, *, nulls_match: bool) -> tuple[Ints, int]:
    """Numbers in order of appearance, and how many there are. Rows that match nothing are told to `null`."""
    encoded = pc.dictionary_encode(column, null_encoding="encode" if nulls_match else "mask")
    indices = encoded.indices
    if indices.null_count:
        null |= indices.is_null().to_numpy(zero_copy_only=False)
        indices = pc.fill_null(indices, 0)
    return indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary))


def shared_codes(left: Sequence[pa.Array], right: Sequence[pa.Array], rows: tuple[int, int]) -> tuple[Ints, Ints]:
    """Codes of two sides over one dictionary; null keys match nothing."""
    both = [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(left, right, strict=True)]
    total = codes(both, sum(rows), nulls_match=False)
    return total[: rows[0]], total[rows[0] :]


def expand(lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
    """Ranges [low, high) as pairs (number of the range, position)."""
    counts = highs - lows
    owner = np.repeat(np.arange(len(lows)), counts)
    shifts = lows - (np.cumsum(counts) - counts)
    return owner, np.arange(len(owner)) + shifts[owner]


def by_code(values: Ints) -> Ints:
    """Rows in order of their codes, and of arrival where these are equal: numpy sorts 16 bits by counting."""
    low = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable")
    shift = 16
    while int(values.max(initial=0)) >> shift:
        digit = ((values[low] >> shift) & 0xFFFF).astype(np.uint16)
        low = low[np.argsort(digit, kind="stable")]
        shift += 16
    return low


def equal_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """All pairs with left == right, both from `codes`; negative codes match nothing."""
    # One cell more than there are codes, at the end, where -1 finds it: nothing is in it.
    size = int(max(left.max(initial=-1), right.max(initial=-1))) + 2
    nothing = right < 0
    rows = np.flatnonzero(~nothing) if nothing.any() else None
    known = right if rows is None else right[rows]
    counts = np.bincount(known, minlength=size)
    highs = np.cumsum(counts)[left]
    owner, at = expand(highs - counts[left], highs)
    order = by_code(known)[at]
    return owner, order if rows is None else rows[order]


def near_pairs(left: tuple[Ints, Ints], right: tuple[Ints, Ints], lower: int, upper: int) -> tuple[Ints, Ints]:
    """All pairs with equal codes and right time within [left + lower, left + upper]; sides are (codes, times)."""
    (left_codes, left_times), (right_codes, right_times) = left, right
    # Ranks instead of times: (code, time) fits one int64 whatever the times are.
    ticks = np.unique(right_times)
    width = len(ticks) + 1
    order = np.lexsort((right_times, right_codes))
    ordered = right_codes[order] * width + np.searchsorted(ticks, right_times[order])
    lows = left_codes * width + np.searchsorted(ticks, left_times + lower, "left")
    highs = left_codes * width + np.searchsorted(ticks, left_times + upper, "right")
    start, end = np.searchsorted(ordered, lows, "left"), np.searchsorted(ordered, highs, "left")
    end = np.where(left_codes < 0, start, np.maximum(start, end))
    owner, at = expand(start, end)
    found = order[at]
    by_row = np.lexsort((found, owner))
    return owner[by_row], found[by_row]


def latest_before(rows: tuple[Ints, Ints], versions: tuple[Ints, Ints]) -> Ints:
    """For each row the last version of its code that is not after it, -1 if there is none; both are (codes, times)."""
    (codes_, times), (version_codes, version_times) = rows, versions
    if not len(version_codes):
        return np.full(len(codes_), -1, np.int64)
    ticks = np.unique(version_times)
    width = len(ticks) + 1
    ranks = version_codes * width + np.searchsorted(ticks, version_times)
    order = np.argsort(ranks, kind="stable")  # of equal times the one that came last counts
    ordered = ranks[order]
    wanted = codes_ * width + np.searchsorted(ticks, times, "right") - 1
    at = np.searchsorted(ordered, wanted, "right") - 1
    found = order[np.maximum(at, 0)]
    return cast(Ints, np.where((at >= 0) & (codes_ >= 0) & (version_codes[found] == codes_), found, -1))
