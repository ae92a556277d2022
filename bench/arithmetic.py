"""Numbers that look random and that every engine can make for itself.

A value is a function of its row's number n and of a salt: a quadratic residue, so that neighbours have nothing in
common, in arithmetic that fits into 64 bits in numpy and in SQL alike. That lets an engine whose best source counts
(Flink's NumberSequenceSource) make the very rows that the others read from memory.

Rejected: numpy's generators; no SQL can follow them. Their quality is not needed: keys must be spread, no more.
"""

from __future__ import annotations

from typing import Any

PRIME = 2_147_483_647
STEP = 48_271
SALT_STEP = 69_621


def start_of(salt: int) -> int:
    return (salt * SALT_STEP + 1) % PRIME


def mix(n: Any, salt: int) -> Any:
    """Of an int, or of a numpy array of int64.

    >>> [mix(n, salt=1) % 100 for n in range(5)]
    [90, 67, 32, 38, 32]
    """
    x = (n * STEP + start_of(salt)) % PRIME
    return x * x % PRIME


def mix_sql(n: str, salt: int) -> str:
    """The same as an SQL expression over BIGINT. (Flink gives a remainder the type of its divisor.)"""
    prime = f"CAST({PRIME} AS BIGINT)"
    x = f"MOD({n} * {STEP} + {start_of(salt)}, {prime})"
    return f"MOD({x} * {x}, {prime})"
