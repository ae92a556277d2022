"""peer.toml: what it may say, what flags override, and how mistakes are told."""

import pytest

from peer.complaint import Complaint
from peer.config_file import read_settings
from tests.peer.conftest import one_fleet

GOOD = """
zone = "attic"
listen = "127.0.0.1:0"
join = ["10.0.0.7:4000", "[::1]:4000"]
virtual = 2
metrics = "127.0.0.1:9100"
log = "json"

[sources]
readings = "file:rooms.csv?speed=2"
"odd name" = "mqtt://broker.local/house/#"

[sinks]
alerts = "file:alerts.jsonl"
"""


def written(tmp_path, text):
    path = tmp_path / "peer.toml"
    path.write_text(text)
    return path


def test_everything_that_it_may_say_is_read(tmp_path):
    found = read_settings(written(tmp_path, GOOD))
    assert found.values["join"] == ("10.0.0.7:4000", "[::1]:4000")
    assert (found.values["zone"], found.values["virtual"], found.values["log"]) == ("attic", 2, "json")
    assert set(found.sources) == {"readings", "odd name"}
    assert found.sinks == {"alerts": "file:alerts.jsonl"}


MISTAKES = {
    "no TOML": ("zone = attic\n", "line 1"),
    "an unknown key": ('zone = "a"\nzoo = 1\n', 'line 2: there is no setting "zoo"'),
    "a number as zone": ("\n\nzone = 7\n", 'line 3: "zone" is a text in quotes, not 7'),
    "a zone with a space": ('zone = "the attic"\n', 'line 1: "zone" is at most 64 bytes, no spaces'),
    "no port": ('listen = "127.0.0.1"\n', 'line 1: "listen" is host:port'),
    "one address to join": ('join = "10.0.0.7:4000"\n', 'line 1: "join" is a list of addresses'),
    "a bad address to join": ('join = ["10.0.0.7"]\n', 'line 1: "join" is host:port'),
    "too many ids": ("virtual = 17\n", 'line 1: "virtual" is a number from 1 to 16'),
    "insecure as text": ('insecure = "yes"\n', 'line 1: "insecure" is true or false'),
    "sources as text": ('sources = "x"\n', 'line 1: "sources" is a table'),
    "a spec that is none": ('[sources]\nb = "stdin"\na = "fax:12"\n', 'line 3: source "fax:12" is not understood'),
    "a number as spec": ("[sinks]\na = 7\n", 'line 2: "a" is a text in quotes'),
    "a source's spec for a sink": ('[sources]\na = "stdin"\n[sinks]\na = "stdin"\n', "line 4"),
}


@pytest.mark.parametrize(("text", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_the_file_the_line_and_the_key(tmp_path, peer, text, says):
    path = written(tmp_path, text)
    with pytest.raises(Complaint) as told:
        read_settings(path)
    assert str(path) in told.value.message
    assert says in told.value.message
    result = peer("run", "--insecure", "--config", path, "--data", tmp_path / "data")
    assert result.exit_code == 1
    assert says in result.stderr


def test_a_file_that_is_not_there_is_a_sentence(tmp_path, peer):
    result = peer("run", "--insecure", "--config", tmp_path / "none.toml", "--data", tmp_path / "data")
    assert result.exit_code == 1
    assert "none.toml" in result.stderr


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """A peer with a file of its own, and a flag for one of the sources in it."""
    for fleet in one_fleet(tmp_path_factory.mktemp("device")):
        data = fleet.enroll("lamp")
        (data / "peer.toml").write_text(
            'zone = "garden"\nmetrics = "127.0.0.1:0"\n'
            '[sources]\na = "stdin"\nb = "file:b.csv"\n[sinks]\nout = "null"\n'
        )
        fleet.start("lamp", zone="attic", flags=["--source", "a=file:a.csv"])
        fleet.await_listening(fleet.members)
        yield fleet.members[0]


def test_flags_win_over_the_file_and_the_file_over_nothing(device):
    status = device.ask("status")
    assert status["zone"] == "attic"
    assert device.ask("offers", is_here=True) == [
        {"kind": "source", "name": "a", "spec": "file:a.csv"},
        {"kind": "source", "name": "b", "spec": "file:b.csv"},
        {"kind": "sink", "name": "out", "spec": "null"},
    ]


def test_the_metrics_port_of_the_file_is_served_and_told(device, peer):
    def address():
        return device.ask("status").get("metrics", "")

    while not address():
        assert device.is_running
    assert address().startswith("127.0.0.1:") and not address().endswith(":0")
