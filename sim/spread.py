"""Experiment: do the operators of many apps spread over the ring, and are schedulers near?

Apps of 5 to 15 operators are launched one after another through random peers, by the product's search, placement and
ledgers (`sim.launches` says what is assumed, `sim.still_ring` how the ring is made). The share of peers that host fewer
than four operators is set beside two others: *hashing only*, each operator on the owner of its own key, and *path
only*, our layout without leaf sets to choose from.

`scheduler_hops` counts every hop that the question for a scheduler took, detours over full schedulers included.
`peer sim spread` prints what this returns.
"""

from collections import Counter
from typing import Any, Final

from overlay.ids import PeerId, key_of
from sim.launches import Launch, Launches, assumptions, launches_of
from sim.measure import mean, percentile
from sim.progress import Progress, silent
from sim.quiet import without_gc
from sim.seeds import rng_of
from sim.still_ring import StillRing

LAUNCHES_PER_S: Final = 1.0
CROWDED: Final = 4
"""From so many operators on, a peer counts as crowded."""


def spread(peers: int, apps: int, seed: int, *, zones: int = 20, progress: Progress = silent) -> dict[str, Any]:
    """Launch `apps` in a ring of `peers` and count operators per peer."""
    if zones > peers:
        raise ValueError(f"{peers} peers cannot fill {zones} zones")
    with without_gc():
        ring = StillRing(peers, zones, seed)
        ours, launched = _launch_all(ring, apps, seed, progress, (0.0, 0.7), with_leaves=True)
        paths, _ = _launch_all(ring, apps, seed, progress, (0.7, 0.95), with_leaves=False)
        hashed = Counter(
            ring.census.owner(key_of(f"{it.app}/{operator}"))
            for it in launched
            for operator in range(len(it.shape.stages) + 1)
        )
    operators = ours.operators()
    deployed = [it for it in launched if it.deployed_at is not None]
    hops = [it.search_hops for it in launched if it.scheduler is not None]
    per_zone = Counter(ring.zone_of[peer] for peer, it in ours.schedulers.items() if it.is_scheduler)
    progress(1.0, "done")
    return {
        "peers": peers,
        "apps": apps,
        "seed": seed,
        "zones": zones,
        "deployed": len(deployed),
        "refused": len(launched) - len(deployed),
        "operators": sum(operators.values()),
        "under_4": _under(operators, peers),
        "operators_max": max(operators.values(), default=0),
        "operators_per_peer": _histogram(operators, peers),
        "hashing_only_under_4": _under(hashed, peers),
        "path_only_under_4": _under(paths.operators(), peers),
        "scheduler_hops_mean": round(mean(hops), 3),
        "scheduler_hops_p95": percentile(hops, 95),
        "scheduler_hops_max": max(hops, default=0),
        "schedulers": sum(per_zone.values()),
        "schedulers_per_zone": {f"zone-{zone}": per_zone[zone] for zone in range(zones)},
        "assumed": assumptions(),
    }


def _launch_all(
    ring: StillRing, apps: int, seed: int, progress: Progress, share: tuple[float, float], *, with_leaves: bool
) -> tuple[Launches, list[Launch]]:
    world = Launches(ring, with_leaves=with_leaves)
    launched = launches_of(ring, apps, rng_of(seed, "apps"))
    for number, it in enumerate(launched):
        world.launch(it, number / LAUNCHES_PER_S)
    for second in range(int(apps / LAUNCHES_PER_S) + 60):
        world.heap.run_to(float(second))
        if second % 16 == 0:
            done = min(len(world.done) / max(apps, 1), 1.0)
            progress(share[0] + (share[1] - share[0]) * done, f"{len(world.done)} of {apps} apps are launched")
    return world, launched


def _under(operators: dict[PeerId, int], peers: int) -> float:
    return round(1.0 - sum(1 for many in operators.values() if many >= CROWDED) / peers, 6)


def _histogram(operators: dict[PeerId, int], peers: int) -> dict[str, int]:
    counts = Counter(many for many in operators.values() if many)
    return {"0": peers - sum(counts.values()), **{str(many): counts[many] for many in sorted(counts)}}
