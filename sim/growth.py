"""Let a ring grow as rings do: the more peers there are, the more join at once.

Joins per virtual second are a share of the peers that are there, so a ring of 10,000 takes five times as
long as one of ten, not a thousand times, and every join meets a ring that is itself being joined.
"""

from sim.progress import Progress, silent
from sim.world import World

GROWTH_PER_S = 0.25
"""Newcomers a second, as a share of the peers that are there."""
SETTLE_LIMIT_S = 120.0
"""A ring in which somebody has not joined by then is broken."""


def grow(world: World, peers: int, *, per_s: float = GROWTH_PER_S, progress: Progress = silent) -> float:
    """Add peers until there are `peers`, all joined; returns the virtual seconds it took."""
    began_at = world.now
    while len(world.live) < peers:
        world.add()
        # At first one by one: a ring of three cannot know more than it has been told.
        world.run_for(1.0 / max(per_s * len(world.live), 2.0))
        if len(world.live) % 64 == 0:
            progress(len(world.live) / peers, f"{len(world.live)} of {peers} peers have joined")
    world.run_until(lambda: len(world.joined) == len(world.live), limit_s=SETTLE_LIMIT_S)
    progress(1.0, f"{peers} peers have joined")
    return world.now - began_at
