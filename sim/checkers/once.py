"""Nothing lost and nothing doubled: the finished streams against what one machine makes of the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sim.apps.app import alone, counted
from sim.checkers.shown import Shown


def wrong(shown: Shown, inputs: Mapping[str, Mapping[int, int]], *, is_exact: bool) -> Iterator[str]:
    """Sentences. `is_exact`: no source was ever away, so no row may be late."""
    for sink in ("all", "sums", "late"):
        if shown.gaps(sink):
            yield f'sink "{sink}" has {shown.gaps(sink)} positions that nobody has shown'
    expected = alone(inputs)
    due = Counter((it["source"], it["n"], it["x"]) for it in expected["all"])
    came = Counter((it["source"], it["n"], it["x"]) for it in shown.stream("all"))
    if due - came:
        yield f"{(due - came).total()} rows are lost, as {min(due - came)}"
    if came - due:
        yield f"{(came - due).total()} rows are doubled or were never read, as {min(came - due)}"
    sums, late = shown.stream("sums"), shown.stream("late")
    if counted(sums, late) != counted(expected["sums"], []):
        yield "windows and late rows together are not what one machine counts"
    if is_exact and _bag(sums) != _bag(expected["sums"]):
        yield "windows are not those of one machine, though no source was away"
    if is_exact and late:
        yield f"{len(late)} rows are late, though no source was away"


def _bag(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(it.values()) for it in rows)
