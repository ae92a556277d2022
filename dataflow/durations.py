"""Spans of time as people write them: "10s", "250ms", "1h30m".

Everything inside is an int of microseconds, the finest unit that never overflows an int64 in practice.
Rejected: floats of seconds; two windows that should touch would not.
"""

from __future__ import annotations

import datetime
import re

from dataflow.errors import AppError

UNIT_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|min|s|m|h|d|w)\s*")

Duration = str | int | float | datetime.timedelta


def duration_us(value: Duration, *, what: str = "duration", negative: bool = False) -> int:
    """Microseconds of a duration; a bare number counts seconds.

    >>> duration_us("10s"), duration_us("1h30m"), duration_us(0.5)
    (10000000, 5400000000, 500000)
    """
    span_us = _parse_us(value, what)
    if span_us < 0 and not negative:
        raise AppError(f"{what} {value!r} is negative")
    return span_us


def _parse_us(value: Duration, what: str) -> int:
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return round(value * UNIT_US["s"])
    if not isinstance(value, str):
        raise AppError(f'{what} {value!r} is not a duration; write for example "10s" or "250ms"')
    text = value.strip()
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    total, position = 0.0, 0
    while match := _PART.match(text, position):
        total += float(match[1]) * UNIT_US[match[2]]
        position = match.end()
    if position != len(text) or not text:
        raise AppError(f'{what} {value!r} is not a duration; write for example "10s" or "250ms"')
    return sign * round(total)


def duration_text(span_us: int) -> str:
    """The shortest way to write it.

    >>> duration_text(10_000_000), duration_text(90_000_000), duration_text(0)
    ('10s', '90s', '0s')
    """
    for unit in ("h", "s", "ms", "us"):
        if span_us % UNIT_US[unit] == 0 and (unit != "h" or span_us):
            return f"{span_us // UNIT_US[unit]}{unit}"
    raise AssertionError(span_us)
