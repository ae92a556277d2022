"""What the chaos app must give, computed plainly, and what it gave.

Numbers say which rows are lost or doubled. For windows, a row counts once: in its window, or among the late ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, Final

ROOMS: Final = 7
BEGIN_MS: Final = 1_767_225_600_000
SHOWN_MAX: Final = 5


def numbered_rows(path: Path, *, first: int, count: int, per_s: int) -> None:
    lines = (f"{first + at},{(first + at) % ROOMS},{BEGIN_MS + at * 1000 // per_s}\n" for at in range(count))
    path.write_text("n,room,at\n" + "".join(lines))


@dataclass(frozen=True, slots=True)
class Oracle:
    rows: int
    per_source: int
    per_s: int

    def judge(self, streams: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
        numbers = Counter(row["n"] for row in streams["all"])
        lost = [it for it in range(self.rows) if it not in numbers]
        doubled = [it for it, times in numbers.items() if times > 1 or not 0 <= it < self.rows]
        wrong, windows = self._windows(streams["counts"], streams["late"])
        return {
            "rows_in": self.rows,
            "rows_out": len(streams["all"]),
            "lost": len(lost),
            "doubled": len(doubled),
            "windows": windows,
            "windows_wrong": len(wrong),
            "late": len(streams["late"]),
            **({"lost_first": lost[:SHOWN_MAX]} if lost else {}),
            **({"doubled_first": sorted(doubled)[:SHOWN_MAX]} if doubled else {}),
            **({"wrong_first": wrong[:SHOWN_MAX]} if wrong else {}),
        }

    def _windows(self, counts: list[dict[str, Any]], late: list[dict[str, Any]]) -> tuple[list[Any], int]:
        expected: dict[tuple[int, int], list[int]] = {}
        for n in range(self.rows):
            _add(expected, n % ROOMS, n % self.per_source // self.per_s, 1, n)
        found: dict[tuple[int, int], list[int]] = {}
        given = Counter((row["room"], _second(row["window_start"])) for row in counts)
        for row in counts:
            _add(found, row["room"], _second(row["window_start"]), row["readings"], row["total"])
        for row in late:
            _add(found, row["room"], _second(row["at"]), 1, row["n"])
        wrong: list[Any] = [
            {"room_second": window, "expected": expected.get(window), "found": found.get(window)}
            for window in sorted(expected.keys() | found.keys())
            if expected.get(window) != found.get(window) or given[window] > 1
        ]
        return wrong, len(expected)


def _add(into: dict[tuple[int, int], list[int]], room: int, second: int, count: int, total: int) -> None:
    sums = into.setdefault((room, second), [0, 0])
    sums[0] += count
    sums[1] += total


def _second(at: Any) -> int:
    """Event times have no time zone: they are UTC, wherever this runs."""
    return int(round(at.replace(tzinfo=UTC).timestamp() * 1000) - BEGIN_MS) // 1000
