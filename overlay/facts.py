"""What we have measured about other peers: how far, how loaded.

Unlike a `Contact`, a fact is ours alone and changes with every message. Only peers that we keep somewhere (table
or leaf set) have facts; who leaves both is forgotten here too.
"""

from overlay.ids import PeerId
from overlay.vitals import Vitals

RTT_WEIGHT = 0.2
"""Share of a new sample in the average: a change of route shows after five samples, one spike hardly does."""

RTT_UNKNOWN_S = 1.0
"""What an unmeasured peer is taken for: far, so that measured ones are preferred while the rest is being measured."""


class Facts:
    def __init__(self) -> None:
        self._rtt_s: dict[PeerId, float] = {}
        self._load: dict[PeerId, float] = {}

    def measured(self, peer: PeerId, rtt_s: float) -> None:
        before = self._rtt_s.get(peer)
        self._rtt_s[peer] = rtt_s if before is None else before + RTT_WEIGHT * (rtt_s - before)

    def reported(self, peer: PeerId, vitals: Vitals) -> None:
        self._load[peer] = vitals.load

    def forget(self, peer: PeerId) -> None:
        self._rtt_s.pop(peer, None)
        self._load.pop(peer, None)

    def is_measured(self, peer: PeerId) -> bool:
        return peer in self._rtt_s

    def rtt_s(self, peer: PeerId) -> float:
        return self._rtt_s.get(peer, RTT_UNKNOWN_S)

    def load(self, peer: PeerId) -> float:
        return self._load.get(peer, 0.0)

    def cost(self, peer: PeerId) -> float:
        """What a hop over this peer costs: its distance in time, as if a fully loaded peer were twice as far."""
        return self._rtt_s.get(peer, RTT_UNKNOWN_S) * (1.0 + self._load.get(peer, 0.0))
