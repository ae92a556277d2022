"""What we set out to reach, and whether a set of figures reaches it. An aim without the figures it needs is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.figures import Figure, ratio
from bench.registry import OURS, YARDSTICK

RATES = {"W4": 8_000_000, "W4-100k": 2_000_000}
FLINKS = ("W1", "W2")
AHEAD_OF_ALL = ("W3", "W5", "W6")
YARDSTICK_TIMES_MAX = 3.0
STARTUP_S_MAX = 1.0


def aims(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Each aim, what was found, and whether it is met: yes, no or open."""
    return [
        {"aim": aim, "found": found if found is not None else "-", "met": "open" if met is None else met}
        for aim, found, met in _aims(figures)
    ]


def _aims(figures: Sequence[Figure]) -> Iterator[tuple[str, str | None, bool | None]]:
    ours = {it.workload: it for it in figures if it.engine == OURS}
    engines = list(dict.fromkeys(it.engine for it in figures))
    for name, wanted in RATES.items():
        found = ours[name].events_per_cpu_s if name in ours else None
        text = None if found is None else f"{found / 1e6:.2f}M"
        met = None if found is None else found >= wanted
        yield f"{name}: at least {wanted / 1e6:g}M events per CPU-second", text, met
    for name in FLINKS:
        yield _ahead(figures, name, "flink")
    for name in AHEAD_OF_ALL:
        for engine in engines:
            if engine not in (OURS, YARDSTICK):
                yield _ahead(figures, name, engine)
        found = ratio(figures, name, YARDSTICK)
        text = None if found is None else f"{1 / found:.2f}x slower"
        met = None if found is None else found >= 1 / YARDSTICK_TIMES_MAX
        yield f"{name}: within {YARDSTICK_TIMES_MAX:g}x of {YARDSTICK}", text, met
    yield _memory(figures)
    starts = [it.startup_s for it in ours.values() if it.startup_s is not None]
    slowest = max(starts, default=None)
    text = None if slowest is None else f"{slowest:.2f} s"
    yield "start-up to the first row under 1 s", text, None if slowest is None else slowest < STARTUP_S_MAX


def _ahead(figures: Sequence[Figure], workload: str, engine: str) -> tuple[str, str | None, bool | None]:
    found = ratio(figures, workload, engine)
    return (
        f"{workload}: at least {engine}'s events per CPU-second",
        None if found is None else f"{found:.2f}x",
        None if found is None else found >= 1,
    )


def _memory(figures: Sequence[Figure]) -> tuple[str, str | None, bool | None]:
    """On the workloads where both worked on equally many events: memory holds the data, too."""
    ours = {(it.workload, it.events): it.peak_rss_mib for it in figures if it.engine == OURS}
    theirs = {(it.workload, it.events): it.peak_rss_mib for it in figures if it.engine == "bytewax"}
    pairs = [(it[0], ours[it], theirs[it]) for it in ours if it in theirs]
    known = [(name, one, other) for name, one, other in pairs if one is not None and other is not None]
    text = ", ".join(f"{name} {one:.0f} and {other:.0f} MiB" for name, one, other in known)
    met = all(one < other for _, one, other in known) if known else None
    return "peak memory below bytewax's (rows per row)", text or None, met
