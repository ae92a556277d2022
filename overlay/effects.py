"""What a machine asks of the world: the only way anything leaves it.

A shell carries these out on sockets and clocks; the simulator does the same on its event heap.
`Send`, `Later` and `Answer` act; the others are observations, for logs, metrics and checkers, and an
`OverlayNode` also listens to those of its own machines.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from overlay.contact import Contact
from overlay.ids import Key, PeerId


@dataclass(frozen=True, slots=True)
class Send:
    """Hand `message` to a peer. It may be lost; nobody tells us if it is."""

    to: Contact
    message: Any


@dataclass(frozen=True, slots=True)
class Later:
    """Give `event` back to this node once `now >= at`. Timers are never cancelled: a stale one is ignored."""

    at: float
    event: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request that the shell made of this node (a lookup, a route, a put)."""

    request: int
    result: Any


@dataclass(frozen=True, slots=True)
class Joined:
    """We are part of the ring, with an exact leaf set."""

    peers_known: int


@dataclass(frozen=True, slots=True)
class Suspected:
    """A peer may be dead: no answer, directly or through others."""

    contact: Contact
    witnesses: int


@dataclass(frozen=True, slots=True)
class Trusted:
    """A suspected peer has shown itself alive."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A peer is taken for dead: several witnesses, and no refutation in time."""

    contact: Contact
    witnesses: tuple[PeerId, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Departed:
    """A peer said that it leaves, and left."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class LeavesChanged:
    """Our leaf set is another than before: owners of keys near us may have changed."""

    gained: tuple[Contact, ...]
    lost: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A message was not acted upon. `reason` is a short label for counters."""

    sender: PeerId
    reason: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A routed message ended its way at us: we own its key."""

    key: Key
    kind: str
    payload: bytes
    origin: Contact
    route: tuple[Any, ...]


Effects = list[Any]
OnMessage = Callable[[Contact, Any, float], Effects]
"""How a machine takes a message: who sent it, what it says, now."""
OnEvent = Callable[[Any, float], Effects]
"""How a machine takes one of its own timers."""
