"""Rows of one batch to the copies of the stage that reads them, by the hash of their key.

Copy i of n owns the words with (word >> 32) * n >> 32 == i. The hash is that of state (state/hashing.py), so rows
and state of a key go to the same place; `key_ranges` says the same as ranges, for whoever cuts state.

Promises: every row goes to exactly one copy, in its order, and is marked as behind the watermark wherever it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dataflow.batches import AnyArray, take
from dataflow.behind import Behind
from dataflow.messages import Data
from dataflow.state.hashing import hash_columns
from dataflow.state.snapshot import HASH_END, KeyRange

COPIES_MAX = 255
"""Owners fit a byte, which numpy sorts by counting: four times as fast as sorting words."""
_HALF = np.uint64(32)


def owners(columns: Sequence[pa.Array], rows: int, copies: int) -> AnyArray:
    """Which copy owns each row."""
    assert 1 <= copies <= COPIES_MAX
    words = hash_columns(columns, rows)
    owner: AnyArray = (((words >> _HALF) * np.uint64(copies)) >> _HALF).astype(np.uint8)
    return owner


def key_ranges(copies: int) -> list[KeyRange]:
    """The hash words of each copy.

    >>> [hex(each.low) for each in key_ranges(2)]
    ['0x0', '0x8000000000000000']
    """
    lows = [-(-(at << 32) // copies) << 32 for at in range(copies)]
    return [KeyRange(low, high) for low, high in zip(lows, [*lows[1:], HASH_END], strict=True)]


def split(data: Data, key: Sequence[str], copies: int) -> list[Data | None]:
    """The rows of each copy; None for a copy that gets none."""
    batch = data.batch
    owner = owners([batch.column(name) for name in key], batch.num_rows, copies)
    first = int(owner[0])
    if bool((owner == first).all()):  # one key, or a few: nothing to move
        return [data if at == first else None for at in range(copies)]
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=copies)
    ends = np.cumsum(counts)
    ordered = take(batch, order)
    parts: list[Data | None] = []
    for at in range(copies):
        start, size = int(ends[at] - counts[at]), int(counts[at])
        if not size:
            parts.append(None)
            continue
        marks = data.behind.after_filter(owner == at) if data.behind else None
        parts.append(Data(ordered.slice(start, size), marks))
    return parts


def pieces(data: Data, bytes_max: int) -> list[Data]:
    """The same rows in batches of about `bytes_max` at most, so that one batch never fills a window by itself."""
    size, rows = data.batch.nbytes, data.batch.num_rows
    if size <= bytes_max or rows < 2:
        return [data]
    step = max(1, rows * bytes_max // size)
    return [_slice(data, start, min(step, rows - start)) for start in range(0, rows, step)]


def _slice(data: Data, start: int, size: int) -> Data:
    behind = data.behind
    if behind is not None:
        low, high = np.searchsorted(behind.rows, [start, start + size])
        marks = Behind(behind.rows[low:high] - start, behind.watermarks_us[low:high]) if high > low else None
    return Data(data.batch.slice(start, size), marks if behind is not None else None)
