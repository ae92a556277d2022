"""The timers of the failure detector, and the one thing that it tells only its own node.

Each timer carries when it was due: a late one proves that we, not the others, were slow.
"""

from dataclasses import dataclass

from overlay.ids import PeerId


@dataclass(frozen=True, slots=True)
class Slept:
    """We did not run for so long that others may have confirmed us: join again."""

    seconds: float


class ProbeEvent:
    """The events that a `Prober` asks back through `Later`: hand each of them to `wake`."""

    __slots__ = ()
    at: float


@dataclass(frozen=True, slots=True)
class ProbeTick(ProbeEvent):
    at: float


@dataclass(frozen=True, slots=True)
class ProbeDue(ProbeEvent):
    at: float
    nonce: int


@dataclass(frozen=True, slots=True)
class RelayDue(ProbeEvent):
    at: float
    nonce: int


@dataclass(frozen=True, slots=True)
class RumourTick(ProbeEvent):
    at: float


@dataclass(frozen=True, slots=True)
class JudgeDue(ProbeEvent):
    at: float
    peer: PeerId


PROBE_EVENTS = (ProbeTick, ProbeDue, RelayDue, RumourTick, JudgeDue)
