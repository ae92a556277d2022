"""Experiment: many apps are launched within ten seconds. How long does each wait, with schedulers and with a master?

The same apps are launched at the same times in the same ring, once with schedulers that are found and elected as in the
product, once with a single master that takes them first come, first served. What is assumed about time stands in
`sim.launches`, and in the report. It decides much: at 60 ms of work for an app of ten operators one master
can do no more than 167 apps in ten seconds, so it falls behind at every number that is usual here, while each of
twenty zones has a scheduler of its own. Fewer apps, a longer window or a faster master narrow the gap.

`peer sim deploy` prints what this returns.
"""

from collections.abc import Sequence
from typing import Any, Final

from sim.launches import Launch, Launches, assumptions, launches_of
from sim.measure import mean, percentile
from sim.progress import Progress, silent
from sim.quiet import without_gc
from sim.seeds import rng_of
from sim.still_ring import StillRing

WINDOW_S: Final = 10.0
"""All apps are launched within this time: a site that comes back after a power cut."""
PATIENCE_S: Final = 600.0


def deploy(
    apps: Sequence[int], seed: int = 1, *, peers: int = 10_000, zones: int = 20, progress: Progress = silent
) -> dict[str, Any]:
    """Launch each number of `apps` with our schedulers and with a master."""
    if zones > peers:
        raise ValueError(f"{peers} peers cannot fill {zones} zones")
    runs = []
    with without_gc():
        ring = StillRing(peers, zones, seed)
        for at, many in enumerate(apps):
            progress(at / len(apps), f"launching {many} apps")
            ours, schedulers = _run(ring, many, seed, is_master=False)
            master, _ = _run(ring, many, seed, is_master=True)
            runs.append({"apps": many, "schedulers": schedulers, "ours": _figures(ours), "master": _figures(master)})
    progress(1.0, "done")
    assumed = {**assumptions(), "launched_within_s": WINDOW_S}
    return {"peers": peers, "zones": zones, "seed": seed, "assumed": assumed, "deployments": runs}


def _run(ring: StillRing, apps: int, seed: int, *, is_master: bool) -> tuple[list[Launch], int]:
    rng = rng_of(seed, "deploy", apps)
    master = ring.peers[rng.randrange(len(ring.peers))]
    world = Launches(ring, master=master if is_master else None)
    launched = launches_of(ring, apps, rng)
    for it in launched:
        world.launch(it, rng.uniform(0.0, WINDOW_S))
    while len(world.done) < apps and world.heap.now < PATIENCE_S:
        world.heap.run_to(world.heap.now + 1.0)
    return launched, sum(1 for it in world.schedulers.values() if it.is_scheduler)


def _figures(launched: Sequence[Launch]) -> dict[str, Any]:
    deployed = [it for it in launched if it.deployed_at is not None]
    waits_ms = [1000 * (it.begun_at - it.queued_at) for it in deployed]
    times_ms = [1000 * (it.deployed_at - it.asked_at) for it in deployed if it.deployed_at is not None]
    return {
        "deployed": len(deployed),
        "refused": len(launched) - len(deployed),
        "placed_again": sum(1 for it in launched if it.attempts > 1),
        "queue_wait_ms_mean": round(mean(waits_ms), 1),
        "queue_wait_ms_p95": round(percentile(waits_ms, 95), 1),
        "deploy_ms_mean": round(mean(times_ms), 1),
        "deploy_ms_p95": round(percentile(times_ms, 95), 1),
    }
