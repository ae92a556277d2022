"""A device says how many instances it takes, and an app that needs more is told so."""

from functools import partial

import pytest

APP = """
from dataflow import App
app = App("three")
app.source("numbers", schema={"n": "int64"}).select("n").sink("out")
"""


@pytest.mark.parametrize(("slots", "says"), [(2, "lacks a slot (2 of 2 are in use)"), (3, "three: 2 rows out, ended")])
def test_an_app_of_three_instances_needs_three_slots(peer, fleet, tmp_path, slots, says):
    (tmp_path / "numbers.csv").write_text("n\n1\n2\n")
    (tmp_path / "three.py").write_text(APP)
    boss = fleet.enroll("boss", role="operator")
    flags = ["--source", f"numbers=file:{tmp_path / 'numbers.csv'}", "--slots", str(slots)]
    lamp = fleet.start("lamp", flags=flags)
    fleet.await_ring()
    launch = partial(peer, "launch", tmp_path / "three.py", "--as", boss, "--data", lamp.data)
    assert says in launch().stderr


def test_no_device_takes_less_than_one_instance(peer, tmp_path):
    result = peer("run", "--slots", "0", "--data", tmp_path)
    assert result.exit_code == 2
    assert "--slots" in result.stderr
