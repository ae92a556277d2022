"""Is this frame for one of us? Else: to whom do we hand it on, and may we?

A relay looks at the envelope and at nothing else: control part and body go on as they came, and the reader at the end
checks the sum that the sender made. What a relay holds is bounded for each next hop, in bytes: who sends more than the
next hop takes loses the frame here, and learns it by missing acknowledgements. A frame that went round in a circle
ends when its hops are used up.

    to is one of us         Here
    no hops left            Dropped("hops-used-up")
    nobody is nearer        Dropped("no-way")
    the next hop is full    Dropped("relay-full")
    else                    Onward: send the portions, then tell `on_sent`

Pure. Which peer is next comes in as a function. Not here: whose word it is that `sender` sent a relayed frame. A
connection speaks only for peers that it introduced (admission.py), so nobody accepts such a frame yet.
Rejected: waiting for room (one slow next hop would hold up all that its neighbour sends us).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from overlay.frames import BODY_BYTES_MAX, Buffer, Frame, relayed_frame
from overlay.ids import PeerId

RELAYED_BYTES_MAX: Final = 2 * BODY_BYTES_MAX
"""For one next hop: one of the largest bodies on the wire, one behind it."""


@dataclass(frozen=True, slots=True)
class Here:
    """It has arrived."""


@dataclass(frozen=True, slots=True)
class Onward:
    next_hop: PeerId
    size_bytes: int
    portions: Iterator[list[Buffer]]


@dataclass(frozen=True, slots=True)
class Dropped:
    """Lost here, under a counted reason."""

    reason: str


class Relay:
    """
    >>> from overlay.ids import Key
    >>> relay = Relay({PeerId(Key(1))}, next_hop=lambda to: None)
    >>> from overlay.frames import FrameKind, Header
    >>> envelope = memoryview(bytes(19) + b"\\x01" + bytes(20))
    >>> relay.decide(Frame(Header(FrameKind.DATA, 0, 40, 0), envelope, memoryview(b"")))
    Here()
    """

    def __init__(self, ours: set[PeerId], *, next_hop: Callable[[PeerId], PeerId | None]) -> None:
        self._ours = ours
        self._next_hop = next_hop
        self._under_way: Counter[PeerId] = Counter()

    def decide(self, frame: Frame) -> Here | Onward | Dropped:
        to = frame.to
        if to in self._ours:
            return Here()
        if not frame.header.hops_left:
            return Dropped("hops-used-up")
        next_hop = self._next_hop(to)
        if next_hop is None or next_hop == frame.sender:
            return Dropped("no-way")
        size = len(frame.control) + len(frame.body)
        if self._under_way[next_hop] + size > RELAYED_BYTES_MAX:
            return Dropped("relay-full")
        self._under_way[next_hop] += size
        return Onward(next_hop, size, relayed_frame(frame))

    def on_sent(self, onward: Onward) -> None:
        """The next hop has it, or is gone: what it took is free again."""
        self._under_way[onward.next_hop] -= onward.size_bytes
        assert self._under_way[onward.next_hop] >= 0
        if not self._under_way[onward.next_hop]:
            del self._under_way[onward.next_hop]
