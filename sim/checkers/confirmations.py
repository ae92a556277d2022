"""Is anybody taken for dead who is alive and can be reached?

A confirmation is false if the very life that it names runs, and peers have been able to hear it for long
enough: a peer that was paused, or cut off, until a moment ago may still be confirmed on evidence from
before. A peer that is leaving no longer counts as alive.
"""

from dataclasses import dataclass
from typing import Final

from overlay.effects import Confirmed
from overlay.ids import PeerId
from sim.network import Network
from sim.peer import SimPeer, State

GRACE_S: Final = 3.0
"""How long old evidence may still be under way after a peer has become reachable again."""


@dataclass(frozen=True, slots=True)
class FalseConfirmation:
    at: float
    by: SimPeer
    about: SimPeer
    witnesses: tuple[PeerId, ...]


class Confirmations:
    """All verdicts of a run, and how long true ones took."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.total = 0
        self.false: list[FalseConfirmation] = []
        self.leaving: set[SimPeer] = set()
        """Peers that have said goodbye but still run."""
        self.detected_s: dict[SimPeer, float] = {}
        """For each ended life, how long it took until the first peer confirmed its death."""

    def on_confirmed(self, peer: SimPeer, effect: Confirmed, now: float) -> None:
        self.total += 1
        about = self._network.peers.get(effect.contact.peer)
        if about is None or about.me.boot_ms > effect.contact.boot_ms:
            return
        if not about.runs:
            self.detected_s.setdefault(about, now - about.changed_at)
        elif self._is_false(peer, about, now):
            self.false.append(FalseConfirmation(now, peer, about, effect.witnesses))

    def _is_false(self, by: SimPeer, about: SimPeer, now: float) -> bool:
        if about.state is not State.UP or about in self.leaving:
            return False
        open_since = self._network.open_since(by.me.peer, about.me.peer)
        return now - max(open_since, about.changed_at, by.changed_at) > GRACE_S
