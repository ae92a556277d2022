"""Schedulers among real peers: found, elected by capacity, missed by nobody when they die."""

import threading

import pytest

from examples import rooms_data
from tests.peer.conftest import one_fleet
from tests.peer.launches import launch, sealed_app

PEERS = {"lamp": 90, "heater": 60, "kettle": 40, "meter": 40}
"""By the slots that each offers."""

APP = """
import sys, time
from dataflow import App
if {slow} and any("enrolled/lamp" in word for word in sys.argv):
    time.sleep(60)
app = App("{name}")
schema = {{"room": "string", "celsius": "float64", "at": "timestamp[ms]"}}
app.source("readings", schema=schema, event_time="at").sink("out")
"""


@pytest.fixture(scope="module")
def attic(tmp_path_factory):
    """Four peers of one zone that have heard of each other; rows trickle in for hours on the kettle."""
    folder = tmp_path_factory.mktemp("attic")
    with (folder / "rooms.csv").open("w") as file:
        file.writelines(line + "\n" for line in rooms_data.lines(5000, 1))
    for fleet in one_fleet(folder):
        fleet.boss = fleet.enroll("boss", role="operator")
        for name, slots in PEERS.items():
            source = f"readings=file:{folder / 'rooms.csv'}?speed=1"
            flags = ["--source", source] if name == "kettle" else []
            fleet.start(name, zone="attic", join=fleet.members[:1], flags=["--slots", str(slots), *flags])
            fleet.await_listening(fleet.members[:1])
        fleet.await_ring()
        for member in fleet.members:
            fleet.until(lambda it=member: it.ask("status")["zone_peers"] == 4, "gossip to name all", within_s=60)
        yield fleet


def test_a_scheduler_is_elected_found_and_when_it_dies_replaced(attic, tmp_path):
    lamp, heater, kettle, meter = attic.members

    def app(name, slow=False):
        return sealed_app(tmp_path, name, APP.format(name=name, slow=slow), operator=attic.boss)

    def rows(facts):
        hosts = heater.ask("app", app=facts["app"])["hosts"].values()
        return max(host.get("streams", {}).get("out", 0) for host in hosts)

    def scheduler_of(facts):
        hosts = heater.ask("app", app=facts["app"])["hosts"].values()
        return {host["scheduler"] for host in hosts if host.get("streams")}

    # Nobody is scheduler yet: the peer with the most slots is elected, whoever is asked.
    rehearsals = {name: launch(meter, app(name), is_rehearsal=True) for name in (f"trickle-{n}" for n in range(30))}
    assert {it["scheduler"] for it in rehearsals.values()} == {lamp.peer[:8]}
    assert lamp.ask("status")["scheduler"] and lamp.ask("status")["scheduled_apps"] == 0
    assert not meter.ask("status")["scheduler"]

    # It leads launches, and need not host what it launches.
    name = next(name for name, it in rehearsals.items() if lamp.peer[:8] not in {at["peer"] for at in it["places"]})
    facts = launch(meter, app(name))
    assert facts["scheduler"] == lamp.peer[:8]
    assert lamp.ask("status")["scheduled_apps"] == 1
    assert launch(kettle, app(name))["was_running"], "the same bundle is the same app"
    attic.until(lambda: rows(facts) > 0, "the first rows", within_s=30)

    # It is killed while it leads another launch: the launcher goes to the next, and what runs goes on.
    led = []
    launcher = threading.Thread(target=lambda: led.append(launch(meter, app("slow", slow=True))))
    launcher.start()
    attic.until(lambda: lamp.ask("status")["scheduled_apps"] == 2, "the lamp to take it", within_s=30)
    lamp.kill()
    launcher.join()
    assert led[0]["scheduler"] == heater.peer[:8], "the next by slots"
    assert not led[0]["was_running"]
    before = rows(facts)
    attic.until(lambda: rows(facts) > before, "rows to go on", within_s=30)
    attic.until(lambda: scheduler_of(facts) == {heater.peer[:8]}, "the app to find another", within_s=60)
    attic.until(lambda: heater.ask("status")["scheduled_apps"] == 2, "both apps to be counted", within_s=60)

    # What is over is not counted.
    kettle.ask("end", app=facts["app"], how="cancel", patience_s=30.0)
    attic.until(lambda: heater.ask("status")["scheduled_apps"] == 1, "the halted app to be let go", within_s=30)


def test_a_lone_peer_launches_by_itself(fleet, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    boss = fleet.enroll("boss", role="operator")
    lamp = fleet.start("lamp", flags=["--source", f"numbers=file:{tmp_path / 'in.jsonl'}"])
    fleet.until(lambda: lamp.ask("status")["joined"], "the lamp to be a ring of one", within_s=30)
    text = "from dataflow import App\napp = App('one')\napp.source('numbers', schema={'n': 'int64'}).sink('out')\n"
    facts = launch(lamp, sealed_app(tmp_path, "one", text, operator=boss))
    assert facts["scheduler"] == lamp.ask("status")["peer"][:8]
    assert {place["peer"] for place in facts["places"]} == {facts["scheduler"]}
