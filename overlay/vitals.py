"""How a peer is doing: what it has, and how much of it is in use.

Every heartbeat carries one, in both directions, so whoever watches a peer also knows its load and its room
without asking. It is a value: a peer that changes sends another.

Rejected: percentages measured by the receiver (only the device knows its own cores), and a map of named
gauges (a map bomb, and nobody could rely on any of them).
"""

from dataclasses import dataclass
from typing import Annotated

from overlay.wire import U16, U32, real

LOAD_MAX = 1000.0
"""Above this a load says nothing more: a thousand runnable threads a core is simply stuck."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Capacity and load of one peer, as it sees itself.

    >>> Vitals(cores=4, memory_mib=2048, slots=8, slots_used=3, load=0.25).slots_free
    5
    """

    cores: U16
    memory_mib: U32
    slots: U16
    """How many instances it is willing to host."""
    slots_used: U16
    load: Annotated[float, real(0.0, LOAD_MAX)]
    """Share of its cores that is busy: 0 is idle, 1 is full, above 1 work is waiting."""
    memory_free_mib: U32 = 0
    """What is left of the memory that it gives to apps."""

    @property
    def slots_free(self) -> int:
        """Room for instances; never negative, though a peer may host more than it offers while it drains."""
        return max(0, self.slots - self.slots_used)
