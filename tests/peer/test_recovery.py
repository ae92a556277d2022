"""Peers die, leave and come while an app runs: every row is in the finished stream once."""

import base64
import json
import threading

import pyarrow as pa
import pytest

from peer.complaint import Complaint
from tests.peer.conftest import one_fleet

ZONES = ("attic", "cellar", "garden")
ROWS = 3000
APP = """
from dataflow import App, col, count, tumbling
app = App("numbers", epoch="200ms")
schema = {"n": "int64", "k": "int64", "at": "timestamp[ms]"}
numbers = app.source("numbers", schema=schema, event_time="at")
numbers.filter(col("n") >= 0).sink("all")
numbers.key_by("k").window(tumbling("1s")).aggregate(rows=count(), total=col("n").sum()).sink("sums")
"""


def numbered(path, first=0):
    """Two milliseconds of event time a row."""
    lines = (f"{first + at},{at % 7},{1_767_225_600_000 + at * 2}\n" for at in range(ROWS))
    path.write_text("n,k,at\n" + "".join(lines))
    return path


@pytest.fixture
def house(tmp_path, tmp_path_factory):
    """Six peers; lamp has a source that takes some ten seconds to read, and room for nothing else."""
    numbered(tmp_path / "n.csv")
    for fleet in one_fleet(tmp_path_factory.mktemp("house")):
        fleet.enroll("boss", role="operator")
        for number, name in enumerate(("lamp", "heater", "kettle", "meter", "gate", "pump")):
            source = ("--slots", "1", "--source", f"numbers=file:{tmp_path / 'n.csv'}?speed=0.6")
            flags = source if name == "lamp" else ()
            fleet.start(name, zone=ZONES[number % 3], join=fleet.members[:1], flags=flags)
            fleet.await_listening(fleet.members[:1])
        fleet.await_ring()
        yield fleet


class Running:
    """The app, launched through lamp, and its stream as a person reads it meanwhile."""

    def __init__(self, peer, house, tmp_path):
        self.peer, self.house, self.lamp = peer, house, house.members[0]
        (tmp_path / "app.py").write_text(APP)
        boss = house.folder / "enrolled" / "boss"
        words = ("launch", tmp_path / "app.py", "--as", boss, "--data", self.lamp.data, "--detach", "-o", "json")
        launched = peer(*words)
        assert launched.exit_code == 0, launched.output
        self.numbers: list[int] = []
        self.failure = ""
        self._over = threading.Event()
        self.names = {it.peer[:8]: it for it in house.members}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        """Positions make sure that a row is taken once, whichever peer gives it."""
        position = 0
        while True:
            try:
                answer = self.lamp.ask(
                    "tail", app="numbers", stream="all", position=position, reader="test", patience_s=30
                )
            except Complaint as complaint:
                self.failure = complaint.message
                self._over.wait(0.2)
                continue
            with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(answer["rows"]))) as rows:
                for batch in rows:
                    self.numbers += batch.column("n").to_pylist()
            position = answer["next"]
            if answer["is_ended"]:
                return

    def explained(self):
        return json.loads(self.peer("explain", "numbers", "--data", self.lamp.data, "-o", "json").stdout or "{}")

    def hosts(self):
        """Members that host anything, without lamp, whose source nobody else can read."""
        places = self.explained().get("places", [])
        return [self.names[it] for it in dict.fromkeys(place["peer"] for place in places) if it != self.lamp.peer[:8]]

    def await_rows(self, count):
        self.house.until(lambda: len(self.numbers) >= count, f"{count} rows", within_s=60)

    def await_end(self):
        self.house.until(lambda: not self._reader.is_alive(), f"the end ({self.failure})", within_s=90)


def test_a_host_is_killed_and_no_row_is_lost_or_doubled(peer, house, tmp_path):
    app = Running(peer, house, tmp_path)
    app.await_rows(200)
    victim = app.hosts()[0]
    victim.process.kill()
    victim.process.wait()
    house.members.remove(victim)
    app.await_end()
    assert sorted(app.numbers) == list(range(ROWS))
    assert app.explained()["generation"] >= 2, "nothing had to move: this test shows nothing"


def test_a_host_leaves_in_good_order_and_the_app_goes_on_elsewhere(peer, house, tmp_path):
    app = Running(peer, house, tmp_path)
    app.await_rows(200)
    leaver = app.hosts()[0]
    assert peer("leave", "--data", leaver.data).exit_code == 0
    leaver.process.wait(30)
    house.members.remove(leaver)
    app.await_end()
    assert sorted(app.numbers) == list(range(ROWS))


def test_a_device_that_comes_later_joins_the_running_app(peer, house, tmp_path):
    app = Running(peer, house, tmp_path)
    app.await_rows(100)
    more = numbered(tmp_path / "more.csv", first=ROWS)
    house.start("bell", zone="garden", join=house.members[:1], flags=("--source", f"numbers=file:{more}"))
    app.await_end()
    assert sorted(app.numbers) == list(range(2 * ROWS))
