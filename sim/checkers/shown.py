"""Has anybody shown a row before it was committed, or two different rows at one place?

Every row that any peer ever shows is remembered by its position in the finished stream. Whoever shows that position
again, on whichever peer and in whichever life, must show the same.
"""

from __future__ import annotations

from typing import Any

from dataflow.batches import to_rows
from dataflow.hosting.kept_rows import KeptRows


class Shown:
    def __init__(self) -> None:
        self.rows: dict[str, dict[int, dict[str, Any]]] = {}
        self._upto: dict[int, tuple[KeptRows, int]] = {}

    def look(self, sink: str, kept: KeptRows, committed: int) -> str | None:
        """What is wrong, if anything is."""
        _, upto = self._upto.get(id(kept), (kept, kept.first))
        if kept.rows == upto:
            return None
        self._upto[id(kept)] = (kept, kept.rows)  # with itself, so that its id is not given to another
        known = self.rows.setdefault(sink, {})
        at = kept.first
        for batch in kept.batches():
            if at + batch.num_rows > upto:
                for skip, row in enumerate(to_rows(batch)):
                    if known.setdefault(at + skip, row) != row:
                        return f'sink "{sink}" shows {row} at {at + skip}, where it had shown {known[at + skip]}'
            at += batch.num_rows
        if kept.rows > committed:
            return f'sink "{sink}" shows {kept.rows} rows, but only {committed} are committed'
        return None

    def stream(self, sink: str) -> list[dict[str, Any]]:
        """All that was shown, in order."""
        found = self.rows.get(sink, {})
        return [found[at] for at in sorted(found)]

    def gaps(self, sink: str) -> int:
        found = self.rows.get(sink, {})
        return (max(found) + 1 - len(found)) if found else 0
