"""How to reach a peer: its id, address, zone, and when it booted.

A `Contact` is kademlia's `Node` with what a ring of real devices needs on top. It never changes, so one
object may stand in many tables; what is *measured* about a peer (round-trip time, load) lives in `facts.py`.

`boot_ms` orders two contacts of one peer: a device that restarts on a new address supersedes its old self.
(kademlia's own table keeps the stale address for ever.)
"""

from kademlia.node import Node

from overlay.ids import PeerId, short, to_bytes


class Contact(Node):  # type: ignore[misc]  # kademlia ships no types
    """One peer, as others know it.

    >>> Contact(PeerId(7), "127.0.0.1", 4000, zone="attic").address
    '127.0.0.1:4000'
    """

    __slots__ = ("boot_ms", "peer", "zone")

    def __init__(self, peer: PeerId, host: str, port: int, *, zone: str = "", boot_ms: int = 0) -> None:
        super().__init__(to_bytes(peer), host, port)
        self.peer = peer
        self.zone = zone
        self.boot_ms = boot_ms

    @property
    def host(self) -> str:
        return str(self.ip)

    @property
    def address(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.host else f"{self.ip}:{self.port}"

    def supersedes(self, other: "Contact") -> bool:
        """Is this a later life of the same peer?"""
        return self.peer == other.peer and self.boot_ms > other.boot_ms

    def _facts(self) -> tuple[PeerId, str, int, str, int]:
        return (self.peer, self.host, self.port, self.zone, self.boot_ms)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Contact) and self._facts() == other._facts())

    def __hash__(self) -> int:
        return hash(self.peer)

    def __repr__(self) -> str:
        return f"<{short(self.peer)} at {self.address}{' in ' + self.zone if self.zone else ''}>"

    __str__ = __repr__
