"""The table that TRAIN asks: readings in a Parquet file, by a range of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow.parquet as pq


def between(path: str, start: datetime, end: datetime, *, columns: Sequence[str]) -> list[list[float]]:
    """These columns of the rows of [start, end), row by row."""
    rows = pq.read_table(path, columns=list(columns), filters=[("at", ">=", start), ("at", "<", end)])
    return [list(row) for row in zip(*(rows.column(name).to_pylist() for name in columns), strict=True)]
