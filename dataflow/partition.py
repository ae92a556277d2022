"""Which rows belong to which instance of a keyed operator: one hash, ranges of it, a batch in, batches out.

The same hash cuts state (`Stateful.split`), so rows and state of a key always go to the same place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dataflow.batches import take
from dataflow.state.hashing import hash_columns
from dataflow.state.snapshot import KeyRange


def partition(batch: pa.RecordBatch, key: Sequence[str], ranges: Sequence[KeyRange]) -> list[pa.RecordBatch]:
    """The rows of each range, in their order. Ranges must be sorted, disjoint and cover the hash space.

    >>> import pyarrow as pa
    >>> from dataflow.state.snapshot import even_ranges
    >>> parts = partition(pa.record_batch({"k": [1, 2, 3, 4]}), ["k"], even_ranges(2))
    >>> sorted(row for part in parts for row in part.column("k").to_pylist())
    [1, 2, 3, 4]
    """
    hashes = hash_columns([batch.column(name) for name in key], batch.num_rows)
    lows = np.array([each.low for each in ranges], np.uint64)
    owner = np.searchsorted(lows, hashes, "right") - 1
    order = np.argsort(owner, kind="stable")
    edges = np.searchsorted(owner[order], np.arange(len(ranges) + 1))
    ordered = take(batch, order)
    return [ordered.slice(int(edges[at]), int(edges[at + 1] - edges[at])) for at in range(len(ranges))]
