"""Is every leaf set exactly the nearest live peers?

Compared with what the census says, which sees everyone; a peer that has not finished joining counts as
wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from overlay.ids import PeerId
from sim.census import Census
from sim.peer import SimPeer


@dataclass(frozen=True, slots=True)
class WrongLeafSet:
    """One peer's mistake: whom it misses, and whom it counts that it should not."""

    peer: SimPeer
    missing: tuple[PeerId, ...]
    extra: tuple[PeerId, ...]


def wrong_leaf_sets(peers: Iterable[SimPeer], census: Census, size: int) -> list[WrongLeafSet]:
    """Every peer whose leaf set differs from the `size` nearest live peers, in the order given."""
    wrong = []
    for peer in peers:
        wanted = census.leaves(peer.me.peer, size)
        found = [leaf.peer for leaf in peer.node.leaves]
        if found != wanted:
            wrong.append(
                WrongLeafSet(
                    peer,
                    missing=tuple(it for it in wanted if it not in found),
                    extra=tuple(it for it in found if it not in wanted),
                )
            )
    return wrong
