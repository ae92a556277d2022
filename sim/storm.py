"""Experiment: what does a ring remember after peers have come and gone for minutes?

A ring of constant size loses `leave_per_min` of its peers a minute, half of them by a crash and half by a
graceful leave, and gains as many newcomers, while messages get lost and keys are routed. Then it is quiet
for 60 virtual seconds (messages still get lost). Now every leaf set must be exact, every key must reach its
owner, and nobody alive may have been taken for dead.

`peer sim churn` prints what this returns.
"""

import time
from collections import Counter
from typing import Any, Final

from overlay.effects import Joined, LeavesChanged
from overlay.ids import PeerId
from overlay.settings import Settings
from sim.checkers.deliveries import Delivery
from sim.churn import Churn, Rates
from sim.faults import Faults
from sim.growth import grow
from sim.latency import uniform
from sim.measure import percentile
from sim.peer import SimPeer
from sim.progress import Progress, part, silent
from sim.quiet import without_gc
from sim.seeds import rng_of
from sim.world import World

LOSSES: Final = (0.05, 0.20)
"""What is simulated unless one is named: a bad radio link, and one on which nothing should work."""
QUIET_S: Final = 60.0
STORM_KEYS_PER_S: Final = 5.0
QUIET_KEYS: Final = 1000
ROUTE_S: Final = 20.0
"""How long a message may take before it counts as failed."""


def churn(
    peers: int,
    leave_per_min: float,
    minutes: float,
    seed: int,
    *,
    loss: float | None = None,
    crash_share: float = 0.5,
    hints: bool = True,
    keys: int = QUIET_KEYS,
    zones: int = 8,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run the storm at `loss`, or at 5 % and at 20 % if none is given (`runs` then holds both reports).

    `leave_per_min` is a share of the population: 0.3 turns over 30 % of the ring every minute.
    """
    losses = LOSSES if loss is None else (loss,)
    runs = []
    for index, each in enumerate(losses):
        runs.append(
            _storm(
                peers,
                leave_per_min,
                minutes,
                seed,
                loss=each,
                crash_share=crash_share,
                hints=hints,
                keys=keys,
                zones=zones,
                settings=settings,
                progress=part(progress, index / len(losses), (index + 1) / len(losses)),
            )
        )
    progress(1.0, "done")
    # The first run is the report; a second one says what changes when the network is worse.
    return runs[0] if len(runs) == 1 else {**runs[0], "runs": runs}


def _storm(
    peers: int,
    leave_per_min: float,
    minutes: float,
    seed: int,
    *,
    loss: float,
    crash_share: float,
    hints: bool,
    keys: int,
    zones: int,
    settings: Settings | None,
    progress: Progress,
) -> dict[str, Any]:
    wall_started_s, cpu_started_s = time.perf_counter(), time.process_time()
    with without_gc():
        world = World(
            seed,
            zones=zones,
            peers_per_zone=0,
            latency=uniform(5.0, 50.0, rng_of(seed, "latency")),
            faults=Faults(loss=loss, hints=hints),
            settings=settings,
            replay=f"peer sim churn --peers {peers} --leave-per-min {leave_per_min:g} --minutes {minutes:g}"
            f" --seed {seed} --loss {loss:g}",
        )
        grow(world, peers, progress=part(progress, 0.0, 0.15))
        delays = _Delays(world)
        turnover = Churn(
            world,
            Rates(
                crash_per_min=leave_per_min * crash_share,
                leave_per_min=leave_per_min * (1.0 - crash_share),
                replaces=True,
            ),
        )
        sent_before, began_at = Counter(world.network.sent), world.now
        stormy = _blow(world, turnover, minutes * 60.0, part(progress, 0.15, 0.85))
        world.run_for(QUIET_S)
        peer_s = peers * (world.now - began_at)
        sent = world.network.sent - sent_before
        wrong = world.wrong_leaf_sets()
        progress(0.95, "routing keys through what is left")
        calm = _ask(world, keys)
    confirmations = world.confirmations
    return {
        "peers": peers,
        "leave_per_min": leave_per_min,
        "minutes": minutes,
        "seed": seed,
        "loss": loss,
        "delivered": round(sum(1 for it in calm if it.is_right) / max(len(calm), 1), 6),
        "leaf_sets_exact": round(1.0 - len(wrong) / max(len(world.live), 1), 6),
        "leaf_sets_wrong": [
            {
                "peer": it.peer.name,
                "joined": it.peer in world.joined,
                "missing": [f"{peer:040x}"[:8] for peer in it.missing],
                "extra": [f"{peer:040x}"[:8] for peer in it.extra],
            }
            for it in wrong[:10]
        ],
        "false_confirmations": len(confirmations.false),
        "confirmations": confirmations.total,
        "crashes": turnover.crashes,
        "leaves": turnover.leaves,
        "joins": turnover.joins,
        "joins_unfinished": len(world.live) - len(world.joined),
        "peers_at_end": len(world.live),
        "routes_during_storm": len(stormy),
        "route_failures_during_storm": sum(1 for it in stormy if not it.is_right),
        "routes_astray_during_storm": sum(1 for it in stormy if it.strays),
        "detect_p50_s": round(percentile(list(confirmations.detected_s.values()), 50), 3),
        "detect_p95_s": round(percentile(list(confirmations.detected_s.values()), 95), 3),
        "repair_p50_s": round(percentile(delays.repaired_s, 50), 3),
        "repair_p95_s": round(percentile(delays.repaired_s, 95), 3),
        "join_p50_s": round(percentile(delays.joined_s, 50), 3),
        "join_p95_s": round(percentile(delays.joined_s, 95), 3),
        "messages_per_peer_s": round(sent.total() / peer_s, 2),
        "messages_by_kind_per_peer_s": {kind: round(count / peer_s, 3) for kind, count in sent.most_common()},
        "cpu_s": round(time.process_time() - cpu_started_s, 1),
        "wall_s": round(time.perf_counter() - wall_started_s, 1),
        "trace": world.trace.digest,
    }


class _Delays:
    """How long each peer keeps a dead one in its leaf set, and how long a newcomer takes to join."""

    def __init__(self, world: World) -> None:
        self.repaired_s: list[float] = []
        self.joined_s: list[float] = []
        self._world = world
        world.watch(LeavesChanged, self._on_change)
        world.watch(Joined, self._on_joined)

    def _on_joined(self, peer: SimPeer, effect: Joined, now: float) -> None:
        self.joined_s.append(now - peer.born_at)

    def _on_change(self, peer: SimPeer, effect: LeavesChanged, now: float) -> None:
        for lost in effect.lost:
            self._note(lost, now)

    def _note(self, lost: PeerId, now: float) -> None:
        gone = self._world.network.peers.get(lost)
        if gone is not None and not gone.runs:
            self.repaired_s.append(now - gone.changed_at)


def _blow(world: World, turnover: Churn, seconds: float, progress: Progress) -> list[Delivery]:
    """The storm, with a few routes a second through it."""
    turnover.start()
    end = world.now + seconds
    found = []
    while world.now < end:
        found.append(world.route(world.random_key()))
        world.run_for(1.0 / STORM_KEYS_PER_S)
        left_s = max(end - world.now, 0.0)
        progress(1.0 - left_s / seconds, f"{left_s:.0f} virtual seconds of storm are left")
    turnover.stop()
    # A message whose sender died or left is nobody's failure: nobody is left to repeat it.
    return [it for it in found if it.source.runs or it.is_right]


def _ask(world: World, keys: int) -> list[Delivery]:
    found = []
    for _ in range(keys):
        found.append(world.route(world.random_key()))
        world.run_for(0.005)
    world.run_for(ROUTE_S)
    return found
