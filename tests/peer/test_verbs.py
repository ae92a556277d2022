"""What a person sees of a running ring, verb by verb."""

import json

import pytest

from overlay.ids import key_of, to_hex
from peer.demo import has_measured


def shown(peer, *arguments):
    result = peer(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_status_tells_who_and_how(peer, ring):
    lamp = ring.members[0]
    status = shown(peer, "status", "--data", lamp.data)
    assert status["peer"] == lamp.peer
    assert status["address"] == lamp.address
    assert (status["zone"], status["joined"], status["secure"], status["leaves"]) == ("attic", True, True, 3)


def test_status_as_a_table(peer, ring):
    result = peer("status", "--data", ring.members[0].data)
    assert result.exit_code == 0
    assert ["zone", "attic"] in [line.split() for line in result.stdout.splitlines()]


def test_peers_are_the_others_with_zone_and_address(peer, ring):
    lamp, *others = ring.members
    rows = shown(peer, "peers", "--data", lamp.data)
    told = {(row["peer"], row["zone"], row["address"]) for row in rows}
    assert told == {(it.peer, it.zone, it.address) for it in others}
    assert all(row["leaf"] and not row["suspected"] for row in rows)


def test_peers_of_one_zone(peer, ring):
    rows = shown(peer, "peers", "--zone", "cellar", "--data", ring.members[0].data)
    assert {row["zone"] for row in rows} == {"cellar"}
    assert len(rows) == 2


@pytest.mark.parametrize("name", ["alerts", "readings", "kettle"])
def test_a_route_ends_at_the_peer_nearest_to_the_key(peer, ring, name):
    owner = min((it.peer for it in ring.members), key=lambda it: int(it, 16) ^ key_of(name))
    for member in ring.members:
        route = shown(peer, "route", name, "--data", member.data)
        assert route["key"] == to_hex(key_of(name))
        assert route["owner"] == owner
        assert route["hops"][0]["peer"] == member.peer
        assert route["hops"][-1]["peer"] == owner


def test_a_key_may_be_given_in_digits(peer, ring):
    lamp, heater, *_ = ring.members
    ring.until(lambda: has_measured(lamp), "lamp to have measured its leaves", within_s=60)
    route = shown(peer, "route", heater.peer, "--data", lamp.data)
    assert (route["key"], route["owner"]) == (heater.peer, heater.peer)
    assert [hop["peer"] for hop in route["hops"]] == [lamp.peer, heater.peer]
    assert route["hops"][0]["rtt_to_next_ms"] > 0
    assert route["hops"][1]["rtt_to_next_ms"] is None, "the last hop has no next one"


def test_doctor_finds_the_running_peer_in_good_health(peer, ring):
    findings = {it["check"]: it for it in shown(peer, "doctor", "--data", ring.members[0].data)}
    assert findings["port"]["found"] == f"{ring.members[0].address} answers"
    assert findings["certificate"]["verdict"] == "worth a look"  # a fleet's certificates live for a day
    assert findings["data folder"]["verdict"] == "ok"


def test_the_data_folder_may_come_from_the_environment(peer, ring):
    result = peer("status", env={"SHOAL_DATA": str(ring.members[0].data), "SHOAL_OUTPUT": "json"})
    assert json.loads(result.stdout)["peer"] == ring.members[0].peer


def test_the_control_socket_is_for_its_owner_alone(ring):
    for member in ring.members:
        socket = member.data / "control.sock"
        assert socket.is_socket()
        assert socket.stat().st_mode & 0o777 == 0o600
        assert member.data.stat().st_mode & 0o777 == 0o700


def test_a_second_peer_in_the_same_folder_is_refused(peer, ring):
    lamp = ring.members[0]
    result = peer("run", "--data", lamp.data)
    assert result.exit_code == 1
    assert "already runs" in result.output
    assert lamp.ask("status")["joined"]


def test_a_taken_port_is_a_sentence(peer, ring):
    data = ring.enroll("latecomer")
    result = peer("run", "--data", data, "--listen", ring.members[0].address)
    assert result.exit_code == 1
    assert "the port is taken" in result.output
    assert "--listen" in result.output
