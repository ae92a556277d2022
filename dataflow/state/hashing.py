"""A stable 64-bit hash of keys, a whole column at a time.

The same key hashes alike on every peer, in every process and version: it decides which instance owns a key.
Integers go through a bijective mixer. Strings are read eight bytes at a time straight from Arrow's buffers.
A second, independent word tells keys apart whose first words collide (128 bits together are an identity).

Promises: equal keys have equal hashes, whatever the integer width or string type; null is a key like any other.
Rejected: Python's hash() (salted per process), xxhash (one more wheel to carry, and per-row calls).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from dataflow.batches import Ints, Words, int64s, is_int64_like, validity

SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
NULL_WORD = np.uint64(0xA5A5_5A5A_0F0F_F0F0)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mix64(words: Words) -> Words:
    """splitmix64's finaliser: a bijection in which every input bit reaches every output bit."""
    words = (words ^ (words >> _S30)) * _M1
    words = (words ^ (words >> _S27)) * _M2
    return cast(Words, words ^ (words >> _S31))


def hash_ints(values: Ints, seed: int = SEEDS[0]) -> Words:
    return mix64(values.view(np.uint64) + np.uint64(seed))


def hash_columns(columns: Sequence[pa.Array], rows: int, *, seed: int = SEEDS[0]) -> Words:
    """One word a row over all key columns; no column at all is one global key."""
    if not columns:
        return np.full(rows, np.uint64(seed))
    total = _hash_column(columns[0], seed)
    for column in columns[1:]:
        total = mix64(total * np.uint64(0x100000001B3) + _hash_column(column, seed))
    return total


def _hash_column(column: pa.Array, seed: int) -> Words:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if is_int64_like(kind):
        words = hash_ints(int64s(column), seed)
    elif pa.types.is_floating(kind):
        words = _hash_floats(column, seed)
    elif kind == pa.uint64():
        words = mix64(column.fill_null(0).to_numpy(zero_copy_only=False) + np.uint64(seed))
    else:
        words = _hash_bytes(_as_binary(column), seed)
    valid = validity(column)
    return words if valid is None else np.where(valid, words, NULL_WORD ^ np.uint64(seed))


def _hash_floats(column: pa.Array, seed: int) -> Words:
    values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
    values = np.where(np.isnan(values), np.nan, values)
    return mix64(values.view(np.uint64) + np.uint64(seed))


def _as_binary(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.large_binary())
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        column = column.cast(pa.string())
    return column.cast(pa.large_string()).cast(pa.large_binary())


def _hash_bytes(column: pa.Array, seed: int) -> Words:
    rows = len(column)
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, rows + 1, column.offset * 8)
    lengths = np.diff(offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    # Eight spare bytes, so that the last word of the last string may be read in one load.
    data = np.zeros(last - first + 8, np.uint8)
    if last > first:
        data[:-8] = np.frombuffer(data_buffer, np.uint8, last - first, first)
    loads: Words = np.ndarray((last - first + 1,), np.uint64, data.data, 0, (1,))  # a word at every byte
    starts = offsets[:-1] - first
    words = mix64(lengths.view(np.uint64) + np.uint64(seed))
    left = lengths
    active: Ints | slice = slice(None)  # all rows, while all are long enough
    while left.size:
        if int(left.min()) <= 0:
            some = np.flatnonzero(left > 0)
            active = some if isinstance(active, slice) else active[some]
            starts, left = starts[some], left[some]
            if not left.size:
                break
        bits = np.minimum(left, 8).astype(np.uint64) << np.uint64(3)
        word = loads[starts] & (_ONES >> (np.uint64(64) - bits))
        words[active] = mix64((words[active] * np.uint64(0x100000001B3)) ^ word)
        starts, left = starts + 8, left - 8
    return words
