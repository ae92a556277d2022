"""What is measured: six small jobs that a user of a stream processor recognises.

A workload is named data: its streams, how many events it runs on, and, for an engine that would take minutes over
them, fewer. Every figure is per event, so engines with fewer events are not favoured; each is checked against the
reference of the very rows that it got.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    kind: str  # which job: W4 with another number of keys is the same job
    events: int
    events_of: Mapping[str, int] = field(default_factory=dict)  # at most so many for this engine
    keys: int = 0
    columns: tuple[str, ...] = ()

    def events_for(self, engine: str, given: int | None) -> int:
        return min(given or self.events, self.events_of.get(engine, MILLION * 1000))


SLOW = {"bytewax": 200_000, "pathway": 200_000}
BIDS = ("auction", "bidder", "price", "at")
AVERAGES = ("key", "window_start", "mean", "highest")


def _averages(name: str, keys: int, slow: Mapping[str, int]) -> Workload:
    title = f"mean and max per key per 10 s, {keys:,} keys"
    return Workload(name, title, "W4", 4 * MILLION, slow, keys, AVERAGES)


ALL = {
    each.name: each
    for each in (
        Workload("W1", "pass-through of bids", "W1", 4 * MILLION, {"pathway": 500_000}, columns=BIDS),
        Workload(
            "W2", "bids with auction % 123 = 0", "W2", 4 * MILLION, {"pathway": 500_000}, columns=("auction", "price")
        ),
        Workload(
            "W3",
            "persons and their auctions in the same 10 s",
            "W3",
            MILLION,
            {"bytewax": 50_000, "pathway": 200_000},
            columns=("id", "name", "auction", "window_start"),
        ),
        _averages("W4", 1_000, SLOW),
        _averages("W4-10k", 10_000, SLOW),
        _averages("W4-100k", 100_000, {"bytewax": 50_000, "pathway": 200_000}),
        _averages("W4-1M", 1_000_000, {"bytewax": 50_000, "pathway": 200_000}),
        Workload(
            "W5",
            "parse, filter, annotate, mean over 10 s every 2 s",
            "W5",
            MILLION,
            {"bytewax": 200_000, "pathway": 100_000},
            columns=("site", "window_start", "mean"),
        ),
        Workload(
            "W6",
            "count of words per 10 s",
            "W6",
            MILLION,
            {"bytewax": 50_000, "pathway": 200_000},
            columns=("word", "window_start", "count"),
        ),
    )
}
USUAL = ("W1", "W2", "W3", "W4", "W4-100k", "W5", "W6")
"""Without --workloads. The other numbers of keys are what bench.growth looks at."""
QUICK = ("W1", "W2", "W4", "W4-100k")
