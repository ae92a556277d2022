"""The city's warnings and repairs are those that plain Python finds in the same hour."""

import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dataflow.loading import load_app
from dataflow.local import run
from dataflow.testing import run_batches
from examples.urban_sensing import DISTRICTS, an_hour

FILE = Path(__file__).parents[2] / "examples" / "urban_sensing.py"
HOUR = an_hour(seed=3)
ROWS = HOUR.to_pylist()
EPOCH = datetime(1970, 1, 1)


def floor(at, **span):
    return at - (at - EPOCH) % timedelta(**span)


def is_broken(row):
    return row["dust"] < 0 or row["noise_db"] >= 130


def out_of(*, batch_rows, **params):
    batches = [HOUR.slice(at, batch_rows) for at in range(0, HOUR.num_rows, batch_rows)]
    return run_batches(load_app(FILE, params), {"readings": batches})


@pytest.mark.parametrize(("batch_rows", "dust_max"), [(20_000, 25.0), (333, 14.0)])
def test_dusty_districts_are_warned_every_minute(batch_rows, dust_max):
    district = dict(zip(*DISTRICTS.values(), strict=True))
    windows: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in ROWS:
        if not is_broken(row):
            for back in range(5):
                windows[district[row["sensor"]], floor(row["at"], minutes=1) - timedelta(minutes=back)].append(row)
    expected = {}
    for (name, start), rows in windows.items():
        dust = sum(row["dust"] for row in rows) / len(rows)
        if dust > dust_max and len(rows) >= 20:
            expected[name, start] = (len(rows), pytest.approx(dust), max(row["noise_db"] for row in rows))
    warnings = out_of(batch_rows=batch_rows, dust_max=str(dust_max))["warnings"]
    found = {
        (row["district"], row["window_start"]): (row["readings"], row["dust"], row["loudest_db"]) for row in warnings
    }
    assert len(expected) > 20 and len(found) == len(warnings)
    assert found == expected


@pytest.mark.parametrize("batch_rows", [20_000, 333])
def test_sensors_that_fail_again_and_again_are_to_be_mended(batch_rows):
    faults = Counter((row["sensor"], floor(row["at"], minutes=10)) for row in ROWS if is_broken(row))
    expected = {key: n for key, n in faults.items() if n >= 3}
    repairs = out_of(batch_rows=batch_rows)["repairs"]
    assert {(row["sensor"], row["window_start"]): row["faults"] for row in repairs} == expected
    assert {"s07", "s31"} <= {sensor for sensor, _ in expected}


def test_it_runs_from_a_file_as_its_first_lines_say(tmp_path):
    made = tmp_path / "readings.csv"
    subprocess.run([sys.executable, FILE, made], check=True)
    warnings, repairs = tmp_path / "warnings.csv", tmp_path / "repairs.csv"
    summary = run(
        load_app(FILE), {"readings": f"file:{made}"}, {"warnings": f"file:{warnings}", "repairs": f"file:{repairs}"}
    )
    assert (summary.rows_in, summary.late, summary.dead_letters) == (20_000, 0, 0)
    assert "Harbour" in warnings.read_text() and "s07" in repairs.read_text()
