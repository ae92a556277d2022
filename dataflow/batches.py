"""Small things one does with Arrow batches, typed and in one place.

pyarrow ships no types; this facade keeps `Any` from spreading. Nothing here knows about operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
AnyArray = npt.NDArray[Any]
Row = dict[str, Any]


def row_count(batch: pa.RecordBatch) -> int:
    return cast(int, batch.num_rows)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def take(batch: pa.RecordBatch, rows: AnyArray) -> pa.RecordBatch:
    return batch.take(pa.array(rows))


def keep(batch: pa.RecordBatch, mask: Bools) -> pa.RecordBatch:
    return batch.filter(pa.array(mask))


def concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of many; copies only if there are several."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else empty_batch(schema)


def from_rows(rows: Iterable[Row], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def to_rows(batch: pa.RecordBatch) -> list[Row]:
    return cast("list[Row]", batch.to_pylist())


def whole(array: Any) -> pa.Array:
    """An Array of a ChunkedArray; columns of one chunk are not copied."""
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return array


def int64s(array: pa.Array) -> Ints:
    """The int64 view of an integer, timestamp, date or boolean column; nulls become 0."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date64(kind):
        array = array.view(pa.int64())
    elif pa.types.is_date32(kind):
        array = array.view(pa.int32()).cast(pa.int64())
    elif kind != pa.int64():
        array = array.cast(pa.int64(), safe=False)
    if array.null_count:
        array = pc.fill_null(array, 0)
    return cast(Ints, array.to_numpy(zero_copy_only=False))


def validity(array: pa.Array) -> Bools | None:
    """Which rows are not null; None when all are."""
    if not array.null_count:
        return None
    return cast(Bools, array.is_valid().to_numpy(zero_copy_only=False))


def is_int64_like(kind: pa.DataType) -> bool:
    """Types whose values are exactly an int64."""
    tests = (
        pa.types.is_integer,
        pa.types.is_timestamp,
        pa.types.is_date,
        pa.types.is_boolean,
        pa.types.is_duration,
    )
    return any(test(kind) for test in tests) and kind != pa.uint64()


def objects(array: pa.Array) -> AnyArray:
    """Python values as an object column (None for null)."""
    out = np.empty(len(array), dtype=object)
    out[:] = array.to_pylist()
    return out
