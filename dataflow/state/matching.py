"""Which rows of two batches belong together: equal keys, as pairs of row numbers, by numpy alone.

Pairs come ordered by the left row, then by the right one, so joins are deterministic.
Rejected: Table.join (its order is not defined, and it starts threads of its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import Ints


def codes(columns: Sequence[pa.Array], rows: int, *, nulls_match: bool) -> Ints:
    """A number a row, equal where the keys are equal; -1 for a null key unless nulls match."""
    total: Ints = np.zeros(rows, np.int64)
    null = np.zeros(rows, np.bool_)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode" if nulls_match else "mask")
        indices = encoded.indices
        if indices.null_count:
            null |= indices.is_null().to_numpy(zero_copy_only=False)
            indices = pc.fill_null(indices, 0)
        total = total * max(1, len(encoded.dictionary)) + indices.to_numpy()
        if len(columns) > 1:
            # Keep the numbers small: a few wide columns would overflow otherwise.
            total = cast(Ints, np.unique(total, return_inverse=True)[1].astype(np.int64))
    if null.any():
        total = np.where(null, -1, total)
    return total


def shared_codes(left: Sequence[pa.Array], right: Sequence[pa.Array], rows: tuple[int, int]) -> tuple[Ints, Ints]:
    """Codes of two sides over one dictionary; null keys match nothing."""
    both = [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(left, right, strict=True)]
    total = codes(both, sum(rows), nulls_match=False)
    return total[: rows[0]], total[rows[0] :]


def expand(lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
    """Ranges [low, high) as pairs (number of the range, position)."""
    counts = highs - lows
    owner = np.repeat(np.arange(len(lows)), counts)
    offsets = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, np.repeat(lows, counts) + offsets


def equal_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """All pairs with left == right; negative codes match nothing."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    lows, highs = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    highs = np.where(left < 0, lows, highs)
    owner, at = expand(lows, highs)
    return owner, order[at]


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
