"""Kill a peer, and time how the others heal: for the demo and the benchmark alike."""

from functools import partial

from peer.fleet import Fleet, Member

REPAIR_S_MAX = 60.0


def heal(fleet: Fleet, victim: Member) -> list[float]:
    """Kill a peer; returns after how many seconds each survivor had it out of its leaf set."""
    killed_at = victim.kill()
    survivors = fleet.running
    for member in survivors:
        fleet.until(
            partial(_has_lost, member, victim.peer, killed_at),
            f"{member.name} to notice the death of {victim.name}",
            within_s=REPAIR_S_MAX,
        )
    fleet.await_ring()
    times = [lost_at(member, victim.peer, after=killed_at) for member in survivors]
    return [at - killed_at for at in times if at is not None]


def lost_at(member: Member, peer: str, *, after: float) -> float | None:
    """When `member` took `peer` out of its leaf set, if it did."""
    for event in member.events():
        if event["event"] == "leaves_changed" and peer in event["lost"] and event["at"] >= after:
            return float(event["at"])
    return None


def _has_lost(member: Member, peer: str, after: float) -> bool:
    return lost_at(member, peer, after=after) is not None
