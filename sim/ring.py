"""Experiment: does a ring of N peers deliver every key, in how many hops, at what cost?

Peers join until there are N, the ring rests, then keys are routed from random peers and the simulator,
which sees everyone, checks that each reached its true owner. With measured latencies the same keys are
routed a second time through the same ring with the other choice of next hop, so that the two mean delays
differ by nothing else.

`peer sim ring` prints what this returns.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from overlay.ids import Key
from overlay.settings import Settings
from sim.checkers.deliveries import Delivery
from sim.checkers.routes import standstill
from sim.faults import Faults
from sim.growth import grow
from sim.latency import MATRICES, Constant, Latency, LatencyError, lognormal, uniform
from sim.measure import mean, percentile, resident_kib
from sim.peer import SimPeer
from sim.progress import Progress, part, silent
from sim.quiet import without_gc
from sim.seeds import rng_of
from sim.world import World

CHOICES: Final = {"proximity": "proximity", "hops": "hop_only"}
"""The ways to choose a next hop, and what the report calls each."""
SETTLE_S: Final = 3.0
"""Rest after the last join, so that the youngest are known."""
MEASURE_PAUSE_S: Final = 0.5
"""Peers measure their contacts four times as often here: what counts is that they are known, not when."""
MEASURE_S: Final = 60.0
"""Rest before delays are compared: proximity can only choose among contacts that have been measured."""
UPKEEP: Final = frozenset({"Ping", "Ack", "PingRequest", "Nack", "Rumours", "Digests", "DigestsReply"})
"""What peers say to each other all the time, join or no join: not counted as a join's messages."""
KEYS_PER_S: Final = 2000.0
ANSWER_S: Final = 20.0
"""How long the last key may take, with all its repetitions."""


def ring(
    peers: int,
    keys: int,
    seed: int,
    *,
    latency: str | None = None,
    latency_file: str | Path | None = None,
    choice: str = "proximity",
    zones: int = 8,
    loss: float = 0.0,
    settle_s: float | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Build a ring of `peers` and route `keys` through it.

    `latency` is `constant`, `uniform`, `lognormal`, or a measured data set (`planetlab`, `seattle`) whose
    file is `latency_file`; by default links take 5 to 50 ms.
    """
    if choice not in CHOICES:
        raise ValueError(f"choice is one of {', '.join(CHOICES)}, not {choice}")
    model = latency_named(latency, latency_file, seed)
    measured = latency in MATRICES
    rest_s = settle_s if settle_s is not None else (MEASURE_S if measured else SETTLE_S)
    wall_started_s, cpu_started_s, kib_before = time.perf_counter(), time.process_time(), resident_kib()
    with without_gc():
        world = World(
            seed,
            zones=zones,
            peers_per_zone=0,
            latency=model,
            faults=Faults(loss=loss, hints=False),
            settings=_settings(choice, measured=measured),
            replay=f"peer sim ring --peers {peers} --keys {keys} --seed {seed}",
        )
        joins_virtual_s = grow(world, peers, progress=part(progress, 0.0, 0.8))
        messages_joined = world.network.messages_sent
        join_messages = messages_joined - _upkeep_messages(world)
        world.run_for(rest_s)
        kib_per_peer = (resident_kib() - kib_before) / peers
        runs = [choice, *(other for other in CHOICES if other != choice and measured)]
        results = {}
        for index, each in enumerate(runs):
            _choose(world, each)
            share = part(progress, 0.8 + 0.2 * index / len(runs), 0.8 + 0.2 * (index + 1) / len(runs))
            results[each] = _route_keys(world, _questions(world, keys), share)
        wrong_leaves = len(world.wrong_leaf_sets())
    main = results[choice]
    hops = [len(it.route) - 1 for it in main if it.is_right]
    report = {
        "peers": peers,
        "keys": keys,
        "seed": seed,
        "latency": latency or "uniform",
        "choice": choice,
        "loss": loss,
        "delivered": _share_right(main),
        "hops_mean": round(mean(hops), 3),
        "hops_p50": percentile(hops, 50),
        "hops_p99": percentile(hops, 99),
        "hops_max": max(hops, default=0),
        "routes_without_progress": sum(1 for it in main if _stood_still(it)),
        "leaf_sets_exact": round(1.0 - wrong_leaves / peers, 6),
        "messages_per_join": round(join_messages / peers, 1),
        "messages_total": world.network.messages_sent,
        "joins_virtual_s": round(joins_virtual_s, 1),
        "route_delay_ms_mean": _delay_ms(main),
        "cpu_s": round(time.process_time() - cpu_started_s, 1),
        "wall_s": round(time.perf_counter() - wall_started_s, 1),
        "kib_per_peer": round(kib_per_peer, 1),
        "trace": world.trace.digest,
    }
    if measured:
        report |= {f"{CHOICES[each]}_delay_ms_mean": _delay_ms(found) for each, found in results.items()}
        report |= {f"{CHOICES[each]}_delivered": _share_right(found) for each, found in results.items()}
    progress(1.0, "done")
    return report


def latency_named(name: str | None, path: str | Path | None, seed: int) -> Latency:
    """The latency model that an option names."""
    rng = rng_of(seed, "latency")
    if name in MATRICES:
        if path is None:
            raise LatencyError(f"--latency {name} reads measured data: give its file with --latency-file.")
        return MATRICES[name](Path(path))
    match name:
        case None | "uniform":
            return uniform(5.0, 50.0, rng)
        case "lognormal":
            return lognormal(20.0, 0.8, rng)
        case "constant":
            return Constant(20.0)
    known = ", ".join(["constant", "uniform", "lognormal", *MATRICES])
    raise LatencyError(f"There is no latency model {name}; there are {known}.")


def _settings(choice: str, *, measured: bool) -> Settings:
    settings = replace(Settings(), choice=choice)
    return replace(settings, measure_s=MEASURE_PAUSE_S) if measured else settings


def _upkeep_messages(world: World) -> int:
    return sum(count for kind, count in world.network.sent.items() if kind in UPKEEP)


def _choose(world: World, choice: str) -> None:
    """Let every peer choose its next hops this way from now on."""
    settings = replace(world.settings, choice=choice)
    for peer in world.live:
        peer.node.view._settings = settings


def _questions(world: World, keys: int) -> list[tuple[SimPeer, Key]]:
    """Who asks for which key: the same list every time it is made."""
    rng = rng_of(world.seed, "questions")
    return [(rng.choice(world.live), Key(rng.getrandbits(160))) for _ in range(keys)]


def _route_keys(world: World, questions: Sequence[tuple[SimPeer, Key]], progress: Progress) -> list[Delivery]:
    found = []
    for index, (source, key) in enumerate(questions):
        found.append(world.route(key, source))
        world.run_for(1.0 / KEYS_PER_S)
        if index % 64 == 0:
            progress(index / len(questions), f"{index} of {len(questions)} keys are routed")
    end = world.now + ANSWER_S
    while world.now < end and not all(it.arrived_by is not None for it in found):
        world.run_for(0.1)
    return found


def _share_right(found: Sequence[Delivery]) -> float:
    return round(sum(1 for it in found if it.is_right) / max(len(found), 1), 6)


def _delay_ms(found: Sequence[Delivery]) -> float:
    return round(1000 * mean([it.delay_s for it in found if it.is_right]), 2)


def _stood_still(it: Delivery) -> bool:
    return standstill(it.key, [hop.contact.peer for hop in it.route]) is not None
