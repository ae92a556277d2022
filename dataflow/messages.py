"""What flows between operators: rows, and marks that travel in band with them.

A mark stands for a position in the stream, so it may never overtake rows. `Token` ends an epoch;
`Watermark` promises that no row before its time will follow; `Idle` says "do not wait for me";
`End` says that nothing will follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from dataflow.behind import Behind

# Far beyond any date, and still an int64 after adding the widest window.
TIME_MAX_US = 1 << 61
TIME_MIN_US = -(1 << 61)


@dataclass(frozen=True, slots=True)
class Data:
    """Rows that travel together, and which of them were behind the watermark when they were read."""

    batch: pa.RecordBatch
    behind: Behind | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """No row with an event time before `time_us` will follow, save late ones."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Token:
    """The mark that ends an epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Idle:
    """This input is quiet: watermarks of the others need not wait for it."""


@dataclass(frozen=True, slots=True)
class End:
    """Nothing follows."""


Message = Data | Watermark | Token | Idle | End


def in_turn(data: Data) -> Iterator[Data | Watermark]:
    """The same rows for one who must see the watermark in front of each row that is behind it."""
    start = 0
    for row, watermark_us in data.behind.cuts() if data.behind else ():
        if row > start:
            yield Data(data.batch.slice(start, row - start))
        yield Watermark(watermark_us)
        start = row
    yield Data(data.batch.slice(start))
