"""One typed column of state, indexed by slot.

Numbers, times and booleans live in numpy columns; everything else in a column of Python objects, which is
slower but only paid for by those who keep strings. Nulls are a mask that exists once a null has been seen.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import AnyArray, Bools, Ints, int64s, is_int64_like, objects, validity
from dataflow.state.slots import SLOTS_MIN, grown


def numpy_type(kind: pa.DataType) -> np.dtype[np.generic]:
    if is_int64_like(kind):
        return np.dtype(np.int64)
    if kind == pa.uint64():
        return np.dtype(np.uint64)
    return np.dtype(np.float64) if pa.types.is_floating(kind) else np.dtype(object)


def to_numpy(array: pa.Array) -> AnyArray:
    """Values in the numpy type a column of that kind has; nulls hold anything."""
    kind = array.type
    if is_int64_like(kind):
        return int64s(array)
    if numpy_type(kind).hasobject:
        return objects(array)
    if array.null_count:
        array = pc.fill_null(array, 0)
    out: AnyArray = array.to_numpy(zero_copy_only=False)
    return out if out.dtype == numpy_type(kind) else out.astype(numpy_type(kind))


def to_arrow(values: AnyArray, kind: pa.DataType, invalid: Bools | None = None) -> pa.Array:
    """The way back, with the kind's own type."""
    if values.dtype.hasobject:
        if invalid is not None:
            values = values.copy()
            values[invalid] = None
        return pa.array(values.tolist(), kind)
    array = pa.array(values, mask=invalid)
    if array.type == kind:
        return array
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date64(kind):
        return array.view(kind)
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).view(kind)
    return array.cast(kind, safe=False)


class Column:
    """Values of one Arrow type by slot."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.values: AnyArray = np.zeros(SLOTS_MIN, numpy_type(kind))
        self._null: Bools | None = None

    def grow(self, capacity: int) -> None:
        if capacity > len(self.values):
            self.values = grown(self.values, capacity)
            if self._null is not None:
                self._null = grown(self._null, capacity)

    def put(self, slots: Ints, array: pa.Array) -> None:
        self.values[slots] = to_numpy(array)
        valid = validity(array)
        if valid is not None and self._null is None:
            self._null = np.zeros(len(self.values), np.bool_)
        if self._null is not None:
            self._null[slots] = False if valid is None else ~valid

    def arrow(self, slots: Ints) -> pa.Array:
        return to_arrow(self.values[slots], self.kind, None if self._null is None else self._null[slots])
