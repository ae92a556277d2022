"""From single runs to figures: medians, rates, ratios. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.registry import OURS

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One engine on one workload; rates are None if its rows were wrong or it failed, and `note` says why."""

    workload: str
    engine: str
    events: int
    events_per_s: float | None = None
    events_per_cpu_s: float | None = None
    spread: float | None = None
    """The dearest run's CPU time by the cheapest's: how far to trust the figure."""
    startup_s: float | None = None
    peak_rss_mib: float | None = None
    note: str = ""


def figure_of(workload: str, engine: str, events: int, answers: Sequence[Answer], note: str = "") -> Figure:
    """
    >>> runs = [{"wall_s": 2.0, "cpu_s": 4.0, "peak_rss_mib": 100.0, "startup_s": 0.5}] * 3
    >>> figure_of("W1", "shoal", 8_000, runs).events_per_cpu_s
    2000.0
    """
    if note or not answers:
        return Figure(workload, engine, events, note=note or "no run")
    events = answers[0].get("events", events)
    cpu_s = [max(it["cpu_s"], 1e-9) for it in answers]
    startups = [it["startup_s"] for it in answers if it.get("startup_s") is not None]
    return Figure(
        workload,
        engine,
        events,
        events_per_s=events / max(median(it["wall_s"] for it in answers), 1e-9),
        events_per_cpu_s=events / median(cpu_s),
        spread=max(cpu_s) / min(cpu_s),
        startup_s=median(startups) if startups else None,
        peak_rss_mib=max(it["peak_rss_mib"] for it in answers),
    )


def ratio(figures: Sequence[Figure], workload: str, engine: str) -> float | None:
    """How many times as many events a CPU-second ours does as `engine` does; None without both figures."""
    rates = {it.engine: it.events_per_cpu_s for it in figures if it.workload == workload}
    ours, theirs = rates.get(OURS), rates.get(engine)
    return ours / theirs if ours and theirs else None
