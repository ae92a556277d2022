"""Are two results the same rows? In any order, and with floats equal to nine significant digits.

A result is brought into one canonical form: columns in a given order, times as microseconds, whole numbers as int64,
rows sorted. The digest of that form is what engines report; the form itself is what a difference is told from.

This file runs inside every engine's environment, so it uses pyarrow and numpy and nothing of ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIGNIFICANT_DIGITS = 9
SHOWN_MAX = 3


def canonical(table: Any, columns: Sequence[str]) -> Any:
    """The table with these columns only, of these types only, sorted by all of them."""
    arrays = {name: _plain(table.column(name)) for name in columns}
    plain = pa.table(arrays)
    return plain.take(_order(plain)).combine_chunks()


def _order(plain: Any) -> Any:
    """By every column. Numbers go through numpy, which sorts them several times as fast."""
    if all(pa.types.is_integer(field.type) for field in plain.schema):
        return pa.array(np.lexsort([plain.column(name).to_numpy() for name in reversed(plain.schema.names)]))
    return pc.sort_indices(plain, sort_keys=[(name, "ascending") for name in plain.schema.names])


def _plain(column: Any) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    elif pa.types.is_integer(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        column = pa.chunked_array([_rounded(column.cast(pa.float64()))])
    else:
        column = column.cast(pa.string())
    return column


def _rounded(column: Any) -> Any:
    values = column.to_numpy()
    missing = np.isnan(values)
    safe = np.where(missing | (values == 0), 1.0, values)
    scale = 10.0 ** (SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(np.abs(safe))))
    rounded = np.where(values == 0, 0.0, np.round(safe * scale) / scale)
    return pa.array(rounded, mask=missing)


def digest_of(table: Any, columns: Sequence[str]) -> str:
    """
    >>> one = pa.table({"k": [2, 1], "x": [0.5, 0.1 + 0.2]})
    >>> other = pa.table({"x": [0.3, 0.5], "k": pa.array([1, 2], pa.int32())})
    >>> digest_of(one, ["k", "x"]) == digest_of(other, ["k", "x"])
    True
    """
    plain = canonical(table, columns)
    summed = hashlib.sha256(str(plain.num_rows).encode())
    for name in columns:
        column = plain.column(name)
        summed.update(f"{name} {column.type} {column.null_count}".encode())
        whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if pa.types.is_string(whole.type):
            summed.update(np.asarray(pc.binary_length(whole).fill_null(-1)).tobytes())
            summed.update(b"".join(it.encode() for it in whole.to_pylist() if it is not None))
        else:
            summed.update(np.asarray(whole.fill_null(0)).tobytes())
    return summed.hexdigest()[:16]


def difference(found: Any, wanted: Any, columns: Sequence[str]) -> str | None:
    """In one sentence, how `found` differs; None if it does not."""
    left, right = canonical(found, columns), canonical(wanted, columns)
    if left.equals(right):
        return None
    ours = {tuple(row.values()) for row in left.slice(0, 100_000).to_pylist()}
    theirs = {tuple(row.values()) for row in right.slice(0, 100_000).to_pylist()}
    extra, missing = sorted(ours - theirs, key=str)[:SHOWN_MAX], sorted(theirs - ours, key=str)[:SHOWN_MAX]
    told = f"{left.num_rows:,} rows instead of {right.num_rows:,} ({', '.join(columns)})"
    if extra:
        told += f"; not wanted: {' '.join(map(str, extra))}"
    if missing:
        told += f"; missing: {' '.join(map(str, missing))}"
    return told
