"""What a person sees of an app that runs on a ring, verb by verb, from near and from afar."""

import json
import threading
import urllib.request

import pytest

from tests.peer.conftest import one_fleet
from tests.peer.feed import Feed

APP = """
from dataflow import App, col, count, tumbling

def shout(batch):
    print("working on", batch.num_rows, "rows")
    return batch

app = App("{name}")
schema = {{"room": "string", "at": "timestamp[ms]"}}
readings = app.source("readings", schema=schema, event_time="at", lateness="0s")
readings.map_batches(shout, schema=schema).sink("all")
readings.key_by("room").window(tumbling("10s")).aggregate(readings=count()).sink("counts")
"""


def row(second):
    return {"room": "attic", "at": f"2026-01-01T00:00:{second:02d}"}


@pytest.fixture(scope="module")
def feed():
    it = Feed()
    yield it
    it.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory, feed):
    """Three peers, one of them with a source and metrics; an operator and a viewer."""
    for fleet in one_fleet(tmp_path_factory.mktemp("house")):
        fleet.enroll("boss", role="operator")
        fleet.enroll("guest", role="viewer")
        flags = ["--source", f"readings=tcp:{feed.address}?format=jsonl", "--metrics", "127.0.0.1:0"]
        lamp = fleet.start("lamp", zone="attic", flags=flags)
        fleet.await_listening([lamp])
        for name in ("kettle", "meter"):
            fleet.start(name, zone="cellar", join=[lamp])
        fleet.await_ring()
        yield fleet


@pytest.fixture
def boss(house):
    return house.folder / "enrolled" / "boss"


@pytest.fixture
def guest(house):
    return house.folder / "enrolled" / "guest"


@pytest.fixture
def run(peer, house, boss, feed, tmp_path):
    """Launch an app of a name of its own, through the second peer; ends it afterwards, whatever happened."""
    names = []

    def launch(name, *flags):
        path = tmp_path / f"{name}.py"
        path.write_text(APP.format(name=name))
        result = peer("launch", path, *flags, "--as", boss, "--data", house.members[1].data)
        assert result.exit_code == 0, result.output
        names.append(name)
        return result

    yield launch
    for name in names:
        peer("cancel", name, "--data", house.members[0].data)
    feed.hang_up()


def shown(peer, *arguments):
    result = peer(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def running(run, feed, *seconds, name):
    """An app that runs, and has been given a row for each of these seconds."""
    run(name, "--detach")
    feed.await_reader()
    feed.say(*map(row, seconds))


def status(peer, house, name):
    return shown(peer, "status", name, "--data", house.members[2].data)


def test_status_of_an_app_tells_state_rows_and_watermark(peer, house, run, feed):
    running(run, feed, 1, 2, 15, name="look")
    house.until(lambda: status(peer, house, "look")["rows"] == {"all": 3, "counts": 1}, "rows", within_s=30)
    found = status(peer, house, "loo")
    assert (found["name"], found["state"], found["generation"]) == ("look", "running", 1)
    assert (found["late"], found["dead_letters"], found["queued_rows"]) == (0, 0, 0)
    assert found["watermark"].startswith("2026-01-01T00:00:")
    instances = [it for host in found["hosts"].values() for it in host["instances"]]
    assert {it["rows_in"] for it in instances if it["name"] == "readings"} == {3}
    table = peer("status", "look", "--data", house.members[0].data).stdout
    assert "watermark" in table and "QUEUED_ROWS" in table


def test_explain_tells_of_each_instance_where_and_why_and_the_routes(peer, house, run):
    run("reason", "--detach")
    found = shown(peer, "explain", "reason", "--data", house.members[2].data)
    assert {it["name"] for it in found["places"]} >= {"readings", "all", "counts"}
    assert all(it["why"] for it in found["places"])
    peers = {member.peer[:8] for member in house.members}
    assert {it["peer"] for it in found["places"]} <= peers
    assert {(it["source"], it["sink"]) for it in found["routes"]} == {("readings", "all"), ("readings", "counts")}
    assert {hop for it in found["routes"] for hop in it["hops"]} <= peers
    assert all(it["load_now"] is not None for it in found["hosts"])
    assert "JOIN readings -> all" in peer("explain", "reason", "--data", house.members[0].data).stdout


def test_logs_tell_what_happened_and_what_functions_printed(peer, house, run, feed):
    running(run, feed, 1, name="chatty")

    def words():
        lines = peer("logs", "chatty", "--data", house.members[2].data, "-o", "json").stdout.splitlines()
        return {(it["event"], it["sentence"]) for it in map(json.loads, lines)}

    house.until(lambda: ("printed", "working on 1 rows") in words(), "what was printed", within_s=30)
    assert {"reserved", "ready", "running"} <= {word for word, _ in words()}
    assert any("boss signed the app" in sentence for _, sentence in words())
    peer("cancel", "chatty", "--data", house.members[0].data)
    house.until(lambda: "halted" in {word for word, _ in words()}, "its end", within_s=30)
    result = peer("logs", "chatty", "-f", "--data", house.members[0].data)
    assert result.exit_code == 0, "whoever follows an app that is over comes back"
    times = [line.split()[0] for line in result.stdout.splitlines()]
    assert times == sorted(times)


def await_state(peer, house, name, state):
    def is_so():
        return status(peer, house, name)["state"] == state

    house.until(is_so, f"{name} to be {state}", within_s=30)


def test_stop_lets_what_was_read_reach_the_sinks_and_closes_no_window(peer, house, run, feed):
    running(run, feed, *range(20), *range(20, 60), name="stopped")
    house.until(lambda: status(peer, house, "stopped")["rows"]["all"] > 0, "a row", within_s=30)
    before = status(peer, house, "stopped")
    answer = shown(peer, "stop", "stopped", "--data", house.members[0].data)
    assert (answer["how"], answer["is_whole"], answer["silent"]) == ("stop", True, [])
    await_state(peer, house, "stopped", "halted")
    after = status(peer, house, "stopped")
    read = next(
        it["rows_in"] for host in after["hosts"].values() for it in host["instances"] if it["name"] == "readings"
    )
    assert after["rows"]["all"] == read >= before["rows"]["all"]
    assert after["rows"]["counts"] < 6, "the last window was open"


def test_drain_closes_the_open_windows(peer, house, run, feed):
    running(run, feed, 1, 2, 15, name="drained")
    house.until(lambda: status(peer, house, "drained")["rows"] == {"all": 3, "counts": 1}, "rows", within_s=30)
    answer = shown(peer, "stop", "drained", "--drain", "--data", house.members[2].data)
    assert answer["how"] == "drain"
    await_state(peer, house, "drained", "ended")
    assert status(peer, house, "drained")["rows"] == {"all": 3, "counts": 2}


def test_cancel_ends_at_once_and_only_once(peer, house, run, feed):
    running(run, feed, 1, 2, name="cancelled")
    assert shown(peer, "cancel", "cancelled", "--data", house.members[0].data)["how"] == "cancel"
    await_state(peer, house, "cancelled", "halted")
    result = peer("cancel", "cancelled", "--data", house.members[0].data)
    assert result.exit_code == 1
    assert "is halted already" in result.stderr


@pytest.mark.parametrize("ending", [("stop",), ("cancel",)])
def test_an_app_that_was_ended_may_be_launched_again_at_once(peer, house, run, ending):
    for generation in (1, 2, 3):
        result = run(f"again-{ending[0]}", "--detach", "-o", "json")
        answer = json.loads(result.stdout)
        assert (answer["was_running"], answer["generation"]) == (False, generation)
        assert shown(peer, *ending, answer["name"], "--data", house.members[2].data)["is_over"]


def test_launch_wait_comes_back_when_the_app_is_over(peer, house, run, feed):
    def speak():
        feed.await_reader()
        feed.say(row(1), row(2))
        feed.hang_up()

    speaker = threading.Thread(target=speak)
    speaker.start()
    result = run("waited", "--wait")
    speaker.join()
    assert "waited: 3 rows out, ended" in result.stdout


def test_tail_reads_several_streams_by_short_names(peer, house, run, feed):
    running(run, feed, 1, 2, 15, name="tailed")
    house.until(lambda: status(peer, house, "tailed")["rows"] == {"all": 3, "counts": 1}, "rows", within_s=30)
    feed.hang_up()
    for streams in (("tailed",), ("taile/al", "tailed/counts")):
        result = peer("tail", *streams, "--data", house.members[2].data, "-o", "json")
        assert result.exit_code == 0, result.output
        sinks = [json.loads(line)["sink"] for line in result.stdout.splitlines()]
        assert len(sinks) == 5 and len(set(sinks)) == 2


def test_offers_of_the_ring_name_the_device_and_only_the_device_itself_says_more(peer, house, feed):
    lamp = house.members[0]
    rows = shown(peer, "offers", "--data", house.members[2].data)
    assert rows == [{"source": "readings", "peer": lamp.peer[:8], "zone": "attic", "address": lamp.address}]
    spec = f"tcp:{feed.address}?format=jsonl"
    here = shown(peer, "offers", "--here", "--data", lamp.data)
    assert here == [{"kind": "source", "name": "readings", "spec": spec}]
    assert shown(peer, "offers", "--here", "--data", house.members[1].data) == []


# From afar.


def test_a_viewer_may_look_from_afar_at_everything_that_the_ring_knows(peer, house, run, guest):
    run("afar", "--detach")
    at = ("--at", house.members[1].address, "--as", guest)
    assert shown(peer, "status", *at)["peer"] == house.members[1].peer
    assert "afar" in [it["name"] for it in shown(peer, "apps", *at)]
    assert shown(peer, "status", "afar", *at)["state"] == "running"
    assert shown(peer, "explain", "afar", *at)["places"]
    assert len(shown(peer, "peers", *at)) == 2
    assert shown(peer, "offers", *at)[0]["source"] == "readings"
    assert peer("logs", "afar", *at).exit_code == 0
    assert "shoal_connections" in peer("metrics", *at).stdout
    known = shown(peer, "peers", "--data", house.members[0].data)
    assert len(known) == 2, "a visitor is nobody's peer"


def test_an_operator_launches_and_ends_from_afar(peer, house, boss, tmp_path, feed):
    path = tmp_path / "remote.py"
    path.write_text(APP.format(name="remote"))
    at = ("--at", house.members[2].address, "--as", boss)
    assert peer("launch", path, "--detach", *at).exit_code == 0
    feed.await_reader()
    assert shown(peer, "cancel", "remote", *at)["how"] == "cancel"
    feed.hang_up()


def refused(peer, *arguments):
    result = peer(*arguments)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    return result.stderr


def test_who_may_not_ask_is_told_why(peer, house, boss, guest, tmp_path):
    address = house.members[0].address
    assert "a viewer and may not ask for 'end'" in refused(peer, "cancel", "x", "--at", address, "--as", guest)
    device = house.members[1].data
    assert "bad-role" in refused(peer, "apps", "--at", address, "--as", device)
    assert "Nobody's certificate" in refused(peer, "apps", "--at", address, "--as", tmp_path)
    assert "stays there" in refused(peer, "offers", "--here", "--at", address, "--as", boss)


def test_a_certificate_of_another_cluster_is_refused(peer, house, tmp_path):
    from peer.fleet import Fleet

    with Fleet(tmp_path / "other") as other:
        stranger = other.enroll("boss", role="operator")
    said = refused(peer, "apps", "--at", house.members[0].address, "--as", stranger)
    assert "foreign-ca" in said


def test_a_revoked_viewer_is_refused(peer, house):
    folder = house.enroll("former", role="viewer")
    lamp = house.members[0]
    assert peer("apps", "--at", lamp.address, "--as", folder).exit_code == 0
    assert peer("revoke", "former", "--through", lamp.data, "--data", house.folder).exit_code == 0
    assert "revoked" in refused(peer, "apps", "--at", lamp.address, "--as", folder)


def test_nobody_at_the_address_is_a_sentence(peer, boss):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    assert "Cannot ask the peer at" in refused(peer, "apps", "--at", address, "--as", boss)


# Bad input.


@pytest.mark.parametrize("verb", ["status", "explain", "logs", "stop", "cancel", "tail"])
def test_an_app_that_is_not_there_names_those_that_are(peer, house, verb):
    said = refused(peer, verb, "nowhere", "--data", house.members[0].data)
    assert "There is no app 'nowhere'" in said


@pytest.mark.parametrize("verb", ["status", "explain", "logs", "stop", "cancel"])
def test_a_name_that_may_be_two_apps_is_asked_about(peer, house, run, verb):
    run("twin-one", "--detach")
    run("twin-two", "--detach")
    said = refused(peer, verb, "twin", "--data", house.members[0].data)
    assert "twin-one" in said and "twin-two" in said and "Write more of the name" in said


def test_a_stream_that_is_not_there_names_those_that_are(peer, house, run):
    run("streams", "--detach")
    assert "It has: all, counts" in refused(peer, "tail", "streams/some", "--data", house.members[0].data)
    assert "neither APP/STREAM nor APP" in refused(peer, "tail", "streams/", "--data", house.members[0].data)


@pytest.mark.parametrize("flags", [("--wait", "--detach"), ("--dry-run", "--wait"), ("--local", "--detach")])
def test_flags_that_exclude_each_other_are_a_usage_error(peer, tmp_path, flags):
    path = tmp_path / "app.py"
    path.write_text(APP.format(name="x"))
    result = peer("launch", path, *flags)
    assert result.exit_code == 2
    assert "--detach" in result.stderr


# Metrics.


def test_metrics_over_http_are_those_of_the_verb(peer, house, run, feed):
    running(run, feed, 1, 2, 15, name="counted")
    house.until(lambda: status(peer, house, "counted")["rows"] == {"all": 3, "counts": 1}, "rows", within_s=30)
    lamp = house.members[0]
    address = shown(peer, "status", "--data", lamp.data)["metrics"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        page = answer.read().decode()
    assert 'shoal_rows_in_total{app="counted"' in page
    names = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    pages = [peer("metrics", "--data", member.data).stdout for member in house.members]
    assert all({line.split()[2] for line in it.splitlines() if line.startswith("# TYPE")} == names for it in pages)
    counted = [
        line for it in pages for line in it.splitlines() if line.startswith('shoal_latency_seconds_count{app="counted"')
    ]
    assert sorted(int(line.rpartition(" ")[2]) for line in counted) == [1, 3], "each row has an age at its sink"
