"""Experiment: whatever happens to peers, disks and the network, is the finished stream what one machine would make?

A seed is a world, a swarm of faults, a safety phase in which they strike, and a liveness phase in which they have
stopped and the app must end. Checkers watch all the time; the streams are compared at the end.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dataflow.generations.keeper import KeeperSettings
from dataflow.generations.record import Phase
from sim.apps.swarm import Striker, Swarm, draw
from sim.apps.world import AppWorld
from sim.checkers.once import wrong
from sim.progress import Progress, silent
from sim.seeds import rng_of

SAFETY_S: Final = 20.0
CALM_S: Final = 5.0
"""After the faults, before the sources end: what is still to be repaired then is, or is not."""
LIVENESS_S: Final = 300.0
MARKS: Final = ("stale frame", "nested rollback", "subsumed epoch", "repaired fragment", "sealed config")


@dataclass(slots=True)
class Outcome:
    seed: int
    kinds: list[str]
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    generations: int = 0
    epochs: int = 0
    took_s: float = 0.0
    """Virtual seconds from the end of the faults to the end of the app."""
    trace: list[str] = field(default_factory=list)

    @property
    def replay(self) -> str:
        return f"peer sim chaos --replay {self.seed}"


def run_seed(seed: int, *, swarm: Swarm | None = None, keeps_trace: bool = False) -> Outcome:
    """One world. `swarm`: other faults than those that the seed draws."""
    drawn = rng_of(seed, "swarm")
    swarm = swarm or draw(drawn)
    # Nobody is slow for being busy in virtual time, so silence is noticed sooner than on devices.
    settings = KeeperSettings(
        answer_s=2.0, subsume_s=drawn.choice((2.0, 5.0, 15.0)), host_s=drawn.choice((10.0, 60.0))
    )
    world = AppWorld(seed, settings=settings, keeps_trace=keeps_trace, epoch_ms=drawn.choice((200, 500, 1000)))
    out = Outcome(seed, swarm.kinds)
    striker = Striker(world, swarm, drawn)
    if drawn.random() < 0.3:  # one source ends early, perhaps while the other is away
        ends_at = drawn.uniform(5.0, SAFETY_S)
        world.heap.put(ends_at, lambda _, at: world.devices["b"].end(at), None)
    world.launch()
    try:
        out.took_s = _live(world, striker, drawn.uniform(0.5, 3.0))
        _judge(world)
    except Exception as error:  # a machine that trips over itself has failed, whatever the stream looks like
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(at.filename).name}:{at.lineno}"
        world.violation(f"raised {type(error).__name__} in {where} ({at.line}): {error}")
    record = world.record
    out.violations, out.trace = world.violations, world.trace
    out.generations, out.epochs, out.rows = record.generation, record.epoch, len(world.shown.rows.get("all", {}))
    out.faults = world.struck + world.network.struck + Counter({"disk full": _sum(world, "fulls")})
    out.faults += Counter({"torn write": _sum(world, "tears")})
    out.marks = Counter({name: world.marks[name] for name in world.marks if not name.startswith("note ")})
    out.marks["stale frame"] += world.refused["stale"]
    out.marks["nested rollback"] += len(world.records.generations - world.ran - {record.generation})
    out.marks["sealed config"] += world.marks["note sealed"]
    out.marks["repaired fragment"] += world.marks["note repaired"]
    out.marks["subsumed epoch"] += world.marks["note subsumed"]
    return out


def _live(world: AppWorld, striker: Striker, quiet_s: float) -> float:
    """Faults, then none; how long the app took to end."""
    world.run_for(quiet_s)
    striker.start()
    world.run_for(SAFETY_S)
    striker.stop()
    world.run_for(CALM_S)
    for device in world.devices.values():
        if device.ends_at is None:
            device.end(world.now)
    calm_at = world.now
    while not world.is_over and world.now < calm_at + LIVENESS_S and not world.violations:
        world.run_for(1.0)
    took_s = world.now - calm_at
    world.run_for(5.0)
    return took_s


def _sum(world: AppWorld, what: str) -> int:
    return sum(getattr(it.disk, what) for it in world.all)


def _judge(world: AppWorld) -> None:
    record = world.record
    if world.violations:
        return
    if record.phase is not Phase.ENDED:
        why = f": {record.reason}" if record.reason else ""
        world.violation(f"the app is {record.phase} {LIVENESS_S:.0f} s after the faults{why}")
        return
    inputs = {name: device.rows for name, device in world.devices.items()}
    for sentence in wrong(world.shown, inputs, is_exact=not world.records.was_away):
        world.violation(sentence)


def chaos(*, seeds: int, first: int = 1, progress: Progress = silent) -> dict[str, Any]:
    """Run seeds one after the other; a report of all of them."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    faults: Counter[str] = Counter()
    marks: Counter[str] = Counter(dict.fromkeys(MARKS, 0))
    failed: list[Outcome] = []
    rows = generations = epochs = 0
    slowest = Outcome(first, [])
    for seed in range(first, first + seeds):
        outcome = run_seed(seed)
        faults += outcome.faults
        marks.update(outcome.marks)
        rows += outcome.rows
        generations += outcome.generations
        epochs += outcome.epochs
        if outcome.violations:
            failed.append(outcome)
        if outcome.took_s >= slowest.took_s:
            slowest = outcome
        done = seed - first + 1
        a_minute = 60.0 * done / max(time.perf_counter() - began_s, 1e-6)
        progress(done / seeds, f"seed {seed}: {len(failed)} failed, {faults.total()} faults, {a_minute:.0f} seeds/min")
    wall_s = time.perf_counter() - began_s
    return {
        "seeds": seeds,
        "first": first,
        "violations": sum(len(it.violations) for it in failed),
        "failed": [{"seed": it.seed, "why": it.violations[0], "replay": it.replay} for it in failed],
        "rows": rows,
        "generations": generations,
        "epochs": epochs,
        "faults": dict(sorted(faults.items())),
        "marks": dict(sorted(marks.items())),
        "marks_missed": [name for name in MARKS if not marks[name]],
        "slowest_end_s": round(slowest.took_s, 1),
        "slowest_seed": slowest.seed,
        "seeds_per_min": round(60.0 * seeds / max(wall_s, 1e-6), 1),
        "cpu_s": round(time.process_time() - cpu_s, 1),
    }
