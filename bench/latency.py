"""How long a row of W2 takes from the source to the sink when 50,000 come in a second.

Each engine that has one runs a program of its own: a source that hands over 50 rows every millisecond, stamped with
the time of hand-over, and a sink that reads the clock. What is asked is how fast an engine reacts, not how much it
can carry.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.process import ROOT
from bench.registry import Engine

EVENTS_PER_S = 50_000
TICK_MS = 1
SECONDS = 6
WARM_UP_SHARE = 0.2
"""The first rows find cold caches and threads that are still starting."""
RUN_S_MAX = 60


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50)
    3.0
    """
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * percent / 100))]


def summary(latencies_ms: Sequence[float]) -> dict[str, float]:
    steady = latencies_ms[int(len(latencies_ms) * WARM_UP_SHARE) :]
    return {"p50_ms": percentile(steady, 50), "p99_ms": percentile(steady, 99), "rows": len(steady)}


def latencies(
    engines: Sequence[Engine], pythons: Mapping[str, Path], *, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for engine in engines:
        if engine.latency is None or engine.name not in pythons:
            continue
        say(f"latency of {engine.name}")
        try:
            ended = subprocess.run(
                [str(pythons[engine.name]), "-m", engine.latency],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=RUN_S_MAX,
            )
        except subprocess.TimeoutExpired:
            say(f"latency of {engine.name}: no answer within {RUN_S_MAX} s")
            continue
        if ended.returncode:
            say(f"latency of {engine.name} failed: {ended.stderr.strip().splitlines()[-1:]}")
            continue
        found.append({"engine": engine.name, **json.loads(ended.stdout.splitlines()[-1])})
    return found
