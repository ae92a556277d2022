"""The doctor on machines that lack something."""

import socket
import time

import pytest

from peer import doctor
from peer.registrar import Registrar


def findings(data, listen="127.0.0.1:0"):
    return {it.check: it for it in doctor.examine(data, listen)}


def test_a_machine_without_a_certificate_is_told_how_to_get_one(peer, tmp_path):
    result = peer("doctor", "--data", tmp_path)
    assert result.exit_code == 1
    assert "peer enroll NAME" in result.output


def test_an_enrolled_device_is_in_good_health(peer, tmp_path):
    registrar = Registrar.create(tmp_path, "house", time.time(), days=100)
    made = registrar.enroll("lamp", "device", time.time(), virtual=1, days=90, out=None, force=False)
    result = peer("doctor", "--data", made["folder"])
    assert result.exit_code == 0, result.output
    assert "lamp, device, 90 days left" in result.output


def test_an_expired_certificate_is_found(tmp_path):
    long_ago = time.time() - 10 * 86400
    registrar = Registrar.create(tmp_path, "house", long_ago, days=100)
    registrar.enroll("lamp", "device", long_ago, virtual=1, days=1, out=tmp_path / "lamp", force=False)
    found = findings(tmp_path / "lamp")["certificate"]
    assert (found.verdict, "expired" in found.found) == ("missing", True)


def test_a_folder_that_others_may_read_is_worth_a_look(tmp_path):
    tmp_path.chmod(0o755)
    assert findings(tmp_path)["data folder"].way_out == f"chmod go= {tmp_path}"


def test_a_taken_port_is_found(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = findings(tmp_path, f"127.0.0.1:{taken.getsockname()[1]}")["port"]
    assert (found.verdict, "--listen" in found.way_out) == ("missing", True)


@pytest.mark.parametrize("home", ["/nonexistent"])
def test_a_broken_java_home_matters_to_spark_only(tmp_path, monkeypatch, home):
    monkeypatch.setenv("JAVA_HOME", home)
    found = findings(tmp_path)["Java for Spark"]
    assert (found.verdict, "only for Spark" in found.way_out) == ("worth a look", True)
