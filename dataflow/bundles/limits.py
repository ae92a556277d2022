"""What an app may use of a host, in each worker process that runs its Python functions.

    memory_mib      beyond what the worker itself took to start (RLIMIT_AS): an app that allocates without bound
                    is ended before the device begins to swap. So much is kept for each worker when the app is
                    admitted: a small device has room for a few
    batch_cpu_s     seconds of CPU for one batch (RLIMIT_CPU, moved on with each batch): a loop that never ends
    batch_wall_s    seconds until a batch must be answered: a function that sleeps or waits for ever costs no CPU

All three are of one batch or one process, never of the app's whole life: a stream has no end, so any total is
reached one day by an honest app. More forgives heavier functions; a stuck one is noticed later by as much.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Final

MEMORY_MIB_MIN: Final = 16
"""Less does not hold one batch and its rows as Python objects."""
MEMORY_MIB_MAX: Final = 1 << 20
SECONDS_MAX: Final = 86_400


@dataclass(frozen=True, slots=True)
class Limits:
    """
    >>> Limits(memory_mib=64).batch_cpu_s
    30
    >>> Limits(memory_mib=1)
    Traceback (most recent call last):
    ...
    ValueError: memory_mib is 1; it must be a whole number from 16 to 1048576
    """

    memory_mib: int = 256
    batch_cpu_s: int = 30
    batch_wall_s: int = 120

    def __post_init__(self) -> None:
        _check("memory_mib", self.memory_mib, MEMORY_MIB_MIN, MEMORY_MIB_MAX)
        _check("batch_cpu_s", self.batch_cpu_s, 1, SECONDS_MAX)
        _check("batch_wall_s", self.batch_wall_s, 1, SECONDS_MAX)

    def pack(self) -> list[int]:
        return list(astuple(self))

    @classmethod
    def unpack(cls, raw: Any) -> Limits:
        """What `pack` gave; anything else is a `ValueError`."""
        if type(raw) is not list or len(raw) != 3:
            raise ValueError("limits are three whole numbers")
        return cls(*raw)


def _check(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {least} to {most}")
