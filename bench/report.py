"""Figures as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.figures import Figure, ratio
from bench.registry import OURS
from peer.output import columns


def rate(value: float | None) -> str | None:
    """
    >>> rate(8_300_000), rate(41_234), rate(None)
    ('8.30M', '41.2k', None)
    """
    if value is None:
        return None
    if value >= 999_500:
        return f"{value / 1e6:.2f}M"
    return f"{value / 1e3:.1f}k" if value >= 999.5 else f"{value:.0f}"


def rows_of(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    return [
        {
            "workload": it.workload,
            "engine": it.engine,
            "events": rate(it.events),
            "events_per_s": rate(it.events_per_s),
            "events_per_cpu_s": rate(it.events_per_cpu_s),
            "spread": None if it.spread is None else f"{it.spread:.2f}",
            "shoal_is": times(ratio(figures, it.workload, it.engine)) if it.engine != OURS else None,
            "startup_s": None if it.startup_s is None else f"{it.startup_s:.2f}",
            "peak_rss_mib": None if it.peak_rss_mib is None else f"{it.peak_rss_mib:.0f}",
            "note": it.note,
        }
        for it in figures
    ]


def times(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}x"


def table(figures: Sequence[Figure]) -> str:
    names = list(rows_of(figures)[0]) if figures else []
    return columns(rows_of(figures), only=[it for it in names if it != "note" or any(each.note for each in figures)])
