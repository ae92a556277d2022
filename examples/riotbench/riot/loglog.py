"""LogLog: how many different things went by, in one small byte for each of 1,024 buckets.

Each bucket keeps the longest run of leading zeros among the hashes that fell into it. While buckets are empty
that is far off (LogLog starts at 406), so their number is used instead, as HyperLogLog does.

>>> registers = bytes(BUCKETS)
>>> for name in ("ash", "elm", "oak", "elm"):
...     registers = added(registers, name)
>>> round(estimate(registers))
3
"""

from __future__ import annotations

import hashlib
import math

BUCKET_BITS = 10
BUCKETS = 1 << BUCKET_BITS
REST_BITS = 64 - BUCKET_BITS
ALPHA = 0.39701  # Durand and Flajolet, for many buckets


def added(registers: bytes, thing: str) -> bytes:
    """The registers after one more thing; the same object if it changes nothing."""
    number = int.from_bytes(hashlib.blake2b(thing.encode(), digest_size=8).digest(), "big")
    bucket, rest = number >> REST_BITS, number & ((1 << REST_BITS) - 1)
    rank = REST_BITS - rest.bit_length() + 1
    if registers[bucket] >= rank:
        return registers
    return registers[:bucket] + bytes([rank]) + registers[bucket + 1 :]


def estimate(registers: bytes) -> float:
    empty = registers.count(0)
    if empty:
        return BUCKETS * math.log(BUCKETS / empty)
    return ALPHA * BUCKETS * math.pow(2, sum(registers) / BUCKETS)
