"""Make the lines that word_count.py reads: `python -m examples.lines_data lines.jsonl`. One seed gives one file."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

TEXT = """
A shoal has no master; each fish watches its neighbours, and the shoal turns as one.
Where one fish is lost, the others close the gap: the shoal goes on.
"""
WORDS = TEXT.split()
BEGIN = datetime(2026, 1, 1)
WORDS_PER_LINE_MAX = 12
STEP_MS = 500


def rows(count: int, seed: int) -> Iterator[dict[str, str]]:
    """Lines in the order they were said."""
    rng = random.Random(seed)
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]  # few words are said often, as in any text
    for n in range(count):
        said = rng.choices(WORDS, weights, k=rng.randint(1, WORDS_PER_LINE_MAX))
        at = BEGIN + timedelta(milliseconds=n * STEP_MS)
        yield {"line": " ".join(said), "at": at.isoformat(timespec="milliseconds")}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write lines of text, for word_count.py.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with given.path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(given.rows, given.seed))


if __name__ == "__main__":
    main()
