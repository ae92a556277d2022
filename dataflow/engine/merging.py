"""Batches that wait one behind the other, put together: small ones when quiet, large ones when busy."""

from __future__ import annotations

from collections.abc import Sequence

from dataflow.batches import concat
from dataflow.behind import joined
from dataflow.messages import Data

BATCH_ROWS_MAX = 1 << 16


def together(parts: Sequence[Data]) -> Data:
    """One batch of several of the same columns, and who in it was behind the watermark."""
    if len(parts) == 1:
        return parts[0]
    batch = concat([part.batch for part in parts], parts[0].batch.schema)
    return Data(batch, joined([(part.batch.num_rows, part.behind) for part in parts]))
