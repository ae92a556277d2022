"""hot_rooms against a plain loop over the lines of its file."""

import csv
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dataflow.connectors.sinks import Memory
from dataflow.loading import load_app
from dataflow.local import run
from examples.rooms_data import lines

ROOT = Path(__file__).parents[2]
EPOCH = datetime(1970, 1, 1)
WINDOW = timedelta(seconds=10)
LATENESS = timedelta(seconds=2)


def parsed(line):
    try:
        room, celsius, at = next(csv.reader([line], strict=True))
        return room, float(celsius), datetime.fromisoformat(at)
    except (ValueError, csv.Error):
        return None


def by_a_plain_loop(text):
    """(windows, rows in, late, dead letters), row after row as anybody would count them."""
    readings: Counter[tuple[str, datetime]] = Counter()
    hottest: dict[tuple[str, datetime], float] = {}
    counts: Counter[str] = Counter()
    newest = EPOCH
    for line in text:
        row = parsed(line)
        if row is None:
            counts["dead"] += 1
            continue
        room, celsius, at = row
        counts["in"] += 1
        begin = at - (at - EPOCH) % WINDOW
        if celsius > 30 and begin + WINDOW <= newest - LATENESS:
            counts["late"] += 1
        elif celsius > 30:
            readings[room, begin] += 1
            hottest[room, begin] = max(celsius, hottest.get((room, begin), celsius))
        newest = max(newest, at)
    windows = {key: (count, hottest[key]) for key, count in readings.items()}
    return windows, counts["in"], counts["late"], counts["dead"]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("threads", [True, False])
def test_hot_rooms_counts_what_a_plain_loop_counts(tmp_path, seed, threads):
    header, *text = lines(3_000, seed)
    path = tmp_path / "rooms.csv"
    path.write_text("\n".join([header, *text]))
    alerts = Memory()
    app = load_app(ROOT / "examples" / "hot_rooms.py")
    summary = run(app, {"readings": f"file:{path}"}, {"alerts": alerts}, threads=threads)
    found = {(row["room"], row["window_start"]): (row["readings"], row["hottest"]) for row in alerts.rows}
    assert len(found) == len(alerts.rows), "a window has two results"
    assert (found, summary.rows_in, summary.late, summary.dead_letters) == by_a_plain_loop(text)
    assert summary.late and summary.dead_letters  # or this test shows less than it says


def test_one_seed_is_one_file():
    assert list(lines(500, 7)) == list(lines(500, 7)) != list(lines(500, 8))
