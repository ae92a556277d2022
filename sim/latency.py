"""How long a message takes from one place to another.

A place is a number that a model gives a peer when it appears: a zone, a row of a measured matrix, or just
the peer's own number. A link's latency never changes during a run and is the same in every process;
what varies from message to message is a fault (`jitter_s`, `reorder`).

Measured matrices are round-trip times, so one way is half. Several peers may live at one row.
Zeros off the diagonal of the Seattle file are below its resolution: they count as `LOCAL_RTT_MS`.
"""

import gzip
import math
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

LOCAL_RTT_MS: Final = 0.5
"""Between two peers at one place: a switch apart."""
LINKS_DRAWN: Final = 4096
"""Latencies drawn for a distribution; links share them by hash, so that 10,000 peers need no matrix."""


class LatencyError(ValueError):
    """A latency file that cannot be used; the message says why, in one sentence."""


class Latency(Protocol):
    def place(self, number: int, zone: int, rng: Random) -> int:
        """Where peer `number` of `zone` lives."""
        ...

    def one_way_s(self, here: int, there: int) -> float:
        """How long a message takes between two places."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Every link alike.

    >>> Constant(one_way_ms=10).one_way_s(1, 2)
    0.01
    """

    one_way_ms: float = 10.0

    def place(self, number: int, zone: int, rng: Random) -> int:
        return number

    def one_way_s(self, here: int, there: int) -> float:
        return self.one_way_ms / 1000


@dataclass(frozen=True, slots=True)
class Zoned:
    """Short inside a zone, long between zones.

    >>> Zoned(within_ms=1, between_ms=20).one_way_s(0, 2)
    0.02
    """

    within_ms: float = 1.0
    between_ms: float = 20.0

    def place(self, number: int, zone: int, rng: Random) -> int:
        return zone

    def one_way_s(self, here: int, there: int) -> float:
        return (self.within_ms if here == there else self.between_ms) / 1000


class Drawn:
    """Each link's latency drawn once from a distribution, and the same both ways."""

    __slots__ = ("_one_way_s",)

    def __init__(self, one_way_ms: Sequence[float]) -> None:
        assert len(one_way_ms) == LINKS_DRAWN
        self._one_way_s = array("d", [ms / 1000 for ms in one_way_ms])

    def place(self, number: int, zone: int, rng: Random) -> int:
        return number

    def one_way_s(self, here: int, there: int) -> float:
        low, high = (here, there) if here < there else (there, here)
        # Knuth's multiplier spreads neighbouring pairs over the table.
        return self._one_way_s[((low * 2654435761 + high * 40503) >> 7) % LINKS_DRAWN]


def uniform(low_ms: float, high_ms: float, rng: Random) -> Drawn:
    """One-way latencies from `low_ms` to `high_ms`."""
    return Drawn([rng.uniform(low_ms, high_ms) for _ in range(LINKS_DRAWN)])


def lognormal(median_ms: float, sigma: float, rng: Random) -> Drawn:
    """Most links near the median, a few very long: what the Internet looks like."""
    return Drawn([rng.lognormvariate(math.log(median_ms), sigma) for _ in range(LINKS_DRAWN)])


class Matrix:
    """Measured round-trip times; peers are spread over its rows at random.

    >>> Matrix([[0.0, 80.0], [60.0, 0.0]]).one_way_s(0, 1)
    0.04
    """

    __slots__ = ("_one_way_s", "rows")

    def __init__(self, rtt_ms: Sequence[Sequence[float]]) -> None:
        self.rows = len(rtt_ms)
        floor_ms = LOCAL_RTT_MS
        self._one_way_s = [array("d", [max(ms, floor_ms) / 2000 for ms in row]) for row in rtt_ms]

    def place(self, number: int, zone: int, rng: Random) -> int:
        return rng.randrange(self.rows)

    def one_way_s(self, here: int, there: int) -> float:
        return self._one_way_s[here][there]


def planetlab(path: Path) -> Matrix:
    """490 x 490 milliseconds, one slice a file."""
    return Matrix(_slice(path, wanted=0, scale=1.0))


def seattle(path: Path, slice_number: int = 0) -> Matrix:
    """99 x 99 seconds, many slices a file; `slice_number` counts from zero."""
    return Matrix(_slice(path, wanted=slice_number, scale=1000.0))


MATRICES: Final = {"planetlab": planetlab, "seattle": seattle}
"""The measured data sets, by the name that `--latency` takes."""


def _slice(path: Path, *, wanted: int, scale: float) -> list[list[float]]:
    slices: list[list[list[float]]] = [[]]
    for number, line in enumerate(_lines(path), start=1):
        if line.startswith("#"):
            if slices[-1]:
                slices.append([])
            continue
        try:
            row = [float(word) * scale for word in line.split()]
        except ValueError:
            raise LatencyError(f"{path}, line {number}: not a row of numbers.") from None
        if not all(math.isfinite(ms) and ms >= 0 for ms in row):
            raise LatencyError(f"{path}, line {number}: a round-trip time is negative or not finite.")
        if row:
            slices[-1].append(row)
    if not slices[-1]:
        slices.pop()
    if not 0 <= wanted < len(slices):
        raise LatencyError(f"{path} has {len(slices)} slices, so there is no slice {wanted}.")
    rtt_ms = slices[wanted]
    if any(len(row) != len(rtt_ms) for row in rtt_ms):
        raise LatencyError(f"{path} is not a square matrix of {len(rtt_ms)} rows.")
    return rtt_ms


def _lines(path: Path) -> list[str]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("ascii")
    except FileNotFoundError:
        raise LatencyError(f"There is no latency file {path}; give its path with --latency-file.") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise LatencyError(f"{path} cannot be read as (gzipped) text: {error}.") from None
    return text.splitlines()
