"""Make the readings that hot_rooms.py reads: `python -m examples.rooms_data rooms.csv`.

Rooms warm up and cool down again. Most rows are a little out of order, a few come far too late, and a few are broken,
as from real sensors. One seed gives one file.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

ROOMS = ("attic", "bath", "cellar", "kitchen")
BEGIN = datetime(2026, 1, 1)
STEP_MS = 250
JITTER_MS = 1_500  # less than the lateness of the app, so these are in time
LATE_MS = 60_000
BROKEN = ("kitchen,hot,{at}", "attic,21.5", 'bath,"19.0,{at}')


def lines(rows: int, seed: int, *, late_every: int = 70, broken_every: int = 300) -> Iterator[str]:
    """The lines of the file, its header first."""
    rng = random.Random(seed)
    yield "room,celsius,at"
    for n in range(1, rows + 1):
        behind_ms = LATE_MS if n % late_every == 0 else rng.randrange(JITTER_MS)
        at = (BEGIN + timedelta(milliseconds=n * STEP_MS - behind_ms)).isoformat(timespec="milliseconds")
        if n % broken_every == 0:
            yield BROKEN[n // broken_every % len(BROKEN)].format(at=at)
            continue
        room = rng.randrange(len(ROOMS))
        celsius = 24 + 8 * math.sin(n / 60 + room * 1.7) + rng.gauss(0, 1)
        yield f"{ROOMS[room]},{celsius:.1f},{at}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write readings of rooms, for hot_rooms.py.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with given.path.open("w") as file:
        file.writelines(line + "\n" for line in lines(given.rows, given.seed))


if __name__ == "__main__":
    main()
