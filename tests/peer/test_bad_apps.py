"""Apps that do not fit, or do harm: each ends in a sentence that names the peer or the line, and nothing of it runs."""

import threading
from dataclasses import replace

import pytest

from dataflow.bundles.collecting import collect
from dataflow.bundles.sealing import Sealed, unpack_sealed
from examples import rooms_data
from peer.complaint import Complaint
from peer.operator import load_operator
from tests.peer.conftest import one_fleet
from tests.peer.launches import launch, sealed_app

PLAIN = """
from dataflow import App
app = App("{name}")
schema = {{"room": "string", "celsius": "float64", "at": "timestamp[ms]"}}
app.source("readings", schema=schema, event_time="at").sink("out")
"""
PYTHON = """
import time
from dataflow import App
kept = []
def work(row):
    {body}
app = App("{name}")
app.source("numbers", schema={{"n": "int64"}}).map(work, schema={{"n": "int64"}}).sink("out")
"""


@pytest.fixture(scope="module")
def shed(tmp_path_factory):
    """Three small peers: the gate has one slot, and the source that never ends."""
    folder = tmp_path_factory.mktemp("shed")
    (folder / "numbers.jsonl").write_text('{"n": 1}\n' * 10)
    with (folder / "rooms.csv").open("w") as file:
        file.writelines(line + "\n" for line in rooms_data.lines(5000, 1))
    for fleet in one_fleet(folder):
        fleet.boss = fleet.enroll("boss", role="operator")
        few = ["--source", f"numbers=file:{folder / 'numbers.jsonl'}"]
        first = fleet.start("pump", flags=["--slots", "20", "--memory", "300", *few])
        fleet.await_listening([first])
        fleet.start("bell", join=[first], flags=["--slots", "20", "--memory", "300"])
        endless = ["--source", f"readings=file:{folder / 'rooms.csv'}?speed=1"]
        fleet.start("gate", join=[first], flags=["--slots", "1", "--memory", "300", *endless])
        fleet.await_ring()
        yield fleet


def outcome(fleet, member, sealed):
    """How an app ends that is launched through this peer: its state and the reason."""
    facts = launch(member, sealed)

    def state():
        return [it for it in member.ask("apps") if it["app"] == facts["app"]]

    fleet.until(lambda: state() and state()[0]["state"] not in ("ready", "running"), "the end", within_s=60)
    hosts = member.ask("app", app=facts["app"])["hosts"].values()
    return {(it["state"], it["reason"]) for it in hosts}


def all_is_free(fleet):
    """Nothing of any app is left anywhere."""

    def free():
        told = [it.ask("status") for it in fleet.running]
        return all(it["slots_used"] == it["memory_used_mib"] == 0 for it in told)

    fleet.until(free, "all room to be given back", within_s=30)


ENDLESS = [
    ("while True: kept.append(bytearray(1 << 20))", {"memory_mib": 64}, "needed more than 64 MiB of memory"),
    ("while True: pass", {"batch_cpu_s": 1}, "used more than 1 s of CPU for one batch"),
    ("time.sleep(10 ** 6)", {"batch_wall_s": 1}, "did not come back within 1 s"),
]


@pytest.mark.parametrize(("body", "limits", "says"), ENDLESS, ids=["memory", "cpu", "wall"])
def test_a_function_without_bounds_fails_its_app_everywhere_and_no_peer(shed, tmp_path, body, limits, says):
    text = PYTHON.format(name="endless", body=body)
    sealed = sealed_app(tmp_path, "endless", text, operator=shed.boss, **limits)
    ends = outcome(shed, shed.members[1], sealed)
    assert {state for state, _ in ends} == {"failed"}
    assert [it for _, it in ends if "endless.py:8: map work" not in it or says not in it] == []
    all_is_free(shed)


def test_limits_are_the_apps_own_unless_the_launch_says_otherwise(shed, tmp_path, peer):
    path = tmp_path / "mine.py"
    text = PYTHON.format(name="mine", body="while True: pass").replace("import App", "import App, Limits")
    path.write_text(text.replace('App("mine")', 'App("mine", limits=Limits(batch_cpu_s=1))'))
    words = ["launch", path, "--as", shed.boss, "--data", shed.members[1].data]
    result = peer(*words)
    assert result.exit_code == 1
    assert 'App "mine" failed' in result.stderr and "used more than 1 s of CPU" in result.stderr
    result = peer(*words, "--batch-wall", "1", "--batch-cpu", "9")
    assert result.exit_code == 1
    assert "did not come back within 1 s (batch_wall_s)" in result.stderr
    result = peer(*words, "--memory", "3")
    assert result.exit_code == 1
    assert "memory_mib is 3; it must be a whole number from 16" in result.stderr
    all_is_free(shed)


def test_an_app_that_needs_more_memory_than_there_is_names_who_lacks_it(shed, tmp_path):
    text = PYTHON.format(name="large", body="return row")
    with pytest.raises(Complaint) as caught:
        launch(shed.members[1], sealed_app(tmp_path, "large", text, operator=shed.boss, memory_mib=301))
    assert "was not launched" in caught.value.message
    assert "lacks memory (301 MiB are needed, 300 MiB are left)" in caught.value.message
    assert shed.members[0].peer[:8] in caught.value.message
    all_is_free(shed)


def test_two_launches_race_for_the_last_slot_and_one_wins(shed, tmp_path):
    """Both need the gate's source, and the gate has one slot."""
    apps = [sealed_app(tmp_path, it, PLAIN.format(name=it), operator=shed.boss) for it in ("left", "right")]
    won, lost = [], []

    def go(member, sealed):
        try:
            won.append(launch(member, sealed))
        except Complaint as complaint:
            lost.append(complaint.message)

    threads = [threading.Thread(target=go, args=pair) for pair in zip(shed.members[:2], apps, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 1), lost
    gate = shed.members[2].peer[:8]
    assert f"peer {gate}" in lost[0] and "lacks" in lost[0] and "slot" in lost[0]
    shed.members[0].ask("end", app=won[0]["app"], how="cancel", patience_s=30.0)
    all_is_free(shed)


def test_an_error_on_one_host_fails_the_launch_everywhere_with_that_hosts_message(shed, tmp_path):
    text = PLAIN.format(name="jam") + (
        "import sys\nif any('enrolled/gate' in word for word in sys.argv):\n    raise OSError('the gate is jammed')\n"
    )
    with pytest.raises(Complaint) as caught:
        launch(shed.members[0], sealed_app(tmp_path, "jam", text, operator=shed.boss))
    assert f"peer {shed.members[2].peer[:8]}" in caught.value.message
    assert "the gate is jammed" in caught.value.message
    assert "Nothing of it runs" in caught.value.message
    all_is_free(shed)


def test_a_bundle_that_was_changed_on_the_way_is_refused(shed, tmp_path):
    sealed = unpack_sealed(sealed_app(tmp_path, "app", PLAIN.format(name="app"), operator=shed.boss))
    changed = replace(sealed, bundle=sealed.bundle.replace(b"celsius", b"kelvins"))
    with pytest.raises(Complaint, match='not those that operator "boss" signed: it was changed on the way'):
        launch(shed.members[0], changed.pack())


def test_a_bundle_that_a_device_signed_is_refused(shed, tmp_path):
    """Sealed by hand: `peer launch` would not even send it."""
    path = tmp_path / "app.py"
    path.write_text(PLAIN.format(name="app"))
    bundle = collect(path)
    device, credential = load_operator(shed.members[0].data)
    by_device = Sealed(bundle.packed, credential.der, device.sign("bundle", bundle.hash))
    with pytest.raises(Complaint, match="certificate is that of a device; only an operator may launch"):
        launch(shed.members[0], by_device.pack())
