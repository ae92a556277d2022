"""The harness from end to end, on this machine's own engine: rows are checked, then told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def bench(home, *typed, module="bench"):
    return subprocess.run(
        [sys.executable, "-m", module, *typed],
        cwd=ROOT,
        env={**os.environ, "SHOAL_BENCH_HOME": str(home)},
        capture_output=True,
        text=True,
    )


def test_shoal_gives_the_rows_of_the_reference_on_every_workload(tmp_path):
    workloads = "W1,W2,W3,W4,W4-10k,W4-100k,W5,W6"
    ended = bench(tmp_path, "--against", "none", "--quick", "--rows", "20000", "--workloads", workloads, "-o", "json")
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)["figures"]
    assert [it["workload"] for it in figures] == workloads.split(",")
    for figure in figures:
        assert figure["engine"] == "shoal"
        assert figure["note"] == ""  # anything wrong with its rows would stand here
        assert figure["events_per_cpu_s"] > 0


def test_without_a_choice_a_quick_pass_is_a_table(tmp_path):
    ended = bench(tmp_path, "--against", "none", "--quick", "--rows", "20000")
    assert ended.returncode == 0, ended.stderr
    assert [line.split()[:2] for line in ended.stdout.splitlines() if " shoal " in line] == [
        ["W1", "shoal"],
        ["W2", "shoal"],
        ["W4", "shoal"],
        ["W4-100k", "shoal"],
    ]
    assert "W4 on shoal: run 1 of 1" in ended.stderr


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["--against", "storm"], 'no engine "storm"; there are shoal, polars'),
        (["--workloads", "W9"], 'no workload "W9"; there are W1, W2'),
        (["--rows", "5"], "5 is not in the range"),
    ],
)
def test_a_wrong_word_is_a_sentence(tmp_path, typed, told):
    ended = bench(tmp_path, *typed)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("module", "lines"), [("bench.growth", 9), ("bench.row_function", 5)])
def test_how_cost_grows_and_what_a_row_function_costs_are_told(tmp_path, module, lines):
    ended = bench(tmp_path, "--rows", "5000", "-o", "json", module=module)
    assert ended.returncode == 0, ended.stderr
    assert len(json.loads(ended.stdout)) == lines
