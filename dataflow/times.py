"""Event time: where a stream keeps it and how its unit relates to microseconds.

Times stay in the unit of their column; only spans and watermarks are converted, never rows.
A column with a time zone holds instants of UTC, so windows align to UTC; one without is taken as it stands.
An int64 column counts milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from dataflow.batches import Ints, int64s
from dataflow.durations import duration_text
from dataflow.errors import AppError
from dataflow.messages import TIME_MAX_US, TIME_MIN_US

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
SECOND_US = 1_000_000
INT64_MAX = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The column that holds event time. Results of windows are stamped one unit before their end (`shift`)."""

    name: str
    kind: pa.DataType
    shift: int = 0

    def of(self, batch: pa.RecordBatch) -> Ints:
        times = int64s(batch.column(self.name))
        return times + self.shift if self.shift else times

    @property
    def units_per_second(self) -> int:
        return UNITS_PER_SECOND[self.kind.unit] if pa.types.is_timestamp(self.kind) else UNITS_PER_SECOND["ms"]

    def span(self, span_us: int, *, what: str) -> int:
        """A span in units of the column; it must be a whole number of them."""
        units, rest = divmod(span_us * self.units_per_second, SECOND_US)
        if rest:
            raise AppError(f'{what} {duration_text(span_us)} is finer than the event time "{self.name}" ({self.kind})')
        return units

    def floor_us(self, units: int) -> int:
        return units * SECOND_US // self.units_per_second

    def floors_us(self, units: Ints) -> Ints:
        """Like floor_us, of many; what is beyond any date stays beyond."""
        if self.units_per_second > SECOND_US:
            return units // (self.units_per_second // SECOND_US)
        us = SECOND_US // self.units_per_second
        return np.clip(units, TIME_MIN_US // us, -(-TIME_MAX_US // us)) * us

    def ceils_units(self, times_us: Ints) -> Ints:
        """Like ceil_units, of many."""
        if self.units_per_second > SECOND_US:
            per_us = self.units_per_second // SECOND_US
            units = np.clip(times_us, -(INT64_MAX // per_us), INT64_MAX // per_us) * per_us
        else:
            units = -(-times_us // (SECOND_US // self.units_per_second))
        units = np.where(times_us >= TIME_MAX_US, INT64_MAX, units)
        return cast(Ints, np.where(times_us <= TIME_MIN_US, -INT64_MAX, units))

    def ceil_units(self, time_us: int) -> int:
        """The first instant of the column's unit that is not before a watermark."""
        if time_us >= TIME_MAX_US:
            return INT64_MAX
        if time_us <= TIME_MIN_US:
            return -INT64_MAX
        return max(-INT64_MAX, min(INT64_MAX, -(-time_us * self.units_per_second // SECOND_US)))


def is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or kind == pa.int64())


def running_max(times: Ints, start: int) -> Ints:
    """The highest time before each row."""
    out = np.maximum.accumulate(times)
    out = np.maximum(out, start)
    return cast(Ints, np.concatenate([np.array([start], np.int64), out[:-1]]))
