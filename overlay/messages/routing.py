"""A message on its way to a key, handed from peer to peer."""

from dataclasses import dataclass
from typing import Annotated, Final

from overlay.wire import U16, U32, U64, Kind, Name, WireContact, WireKey, blob, listed, message, struct

ROUTE_HOPS_MAX: Final = 40
"""No route is longer: every hop fixes at least one of 40 digits."""

PAYLOAD_BYTES_MAX: Final = 32 * 1024
"""What a routed message may carry: half a control frame, so that a full recorded route fits beside it."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One peer on the recorded route, and the round trip it measured to the next one; 0 if it has not yet."""

    contact: WireContact
    rtt_us: U32


_HOP: Kind[Hop] = struct(Hop)
Hops = Annotated[tuple[Hop, ...], listed(_HOP, ROUTE_HOPS_MAX)]
Payload = Annotated[bytes, blob(PAYLOAD_BYTES_MAX)]


@message(tag=10)
@dataclass(frozen=True, slots=True)
class Forward:
    """Take this one step nearer to `key`.

    (origin, nonce) names the message, `attempt` the origin's try at it, `hop_nonce` this handing-over.
    """

    hop_nonce: U64
    origin: WireContact
    nonce: U64
    attempt: U16
    key: WireKey
    kind: Name
    payload: Payload
    route: Hops


@message(tag=11)
@dataclass(frozen=True, slots=True)
class HopTaken:
    """I have it; the next step is mine."""

    hop_nonce: U64


@message(tag=12)
@dataclass(frozen=True, slots=True)
class RouteEnded:
    """To the origin: your message reached the owner of its key; this is the way it took, and the owner's answer."""

    nonce: U64
    route: Hops
    payload: Payload
