"""Making a cluster and letting devices in, without any peer running."""

import json
import time

from overlay.certificates import load_certificate, read_credential, to_der
from peer.registrar import Registrar


def mode_of(path):
    return path.stat().st_mode & 0o777


def credential_in(folder):
    authority = load_certificate((folder / "ca.pem").read_bytes())
    der = to_der((folder / "cert.pem").read_bytes())
    return read_credential(der, authority_certificate=authority, now=time.time())


def test_init_makes_a_ca_whose_key_is_for_its_owner_alone(peer, tmp_path):
    result = peer("init", "--data", tmp_path / "shoal", "-o", "json")
    assert json.loads(result.stdout)["cluster"] == "shoal"
    authority = tmp_path / "shoal" / "authority"
    assert mode_of(authority / "ca-key.pem") == 0o600
    assert mode_of(tmp_path / "shoal") == mode_of(authority) == 0o700


def test_enroll_makes_what_a_device_needs(peer, tmp_path):
    peer("init", "--data", tmp_path)
    made = json.loads(peer("enroll", "lamp", "--virtual", 3, "--data", tmp_path, "-o", "json").stdout)
    folder = tmp_path / "enrolled" / "lamp"
    assert made["folder"] == str(folder)
    assert mode_of(folder / "key.pem") == 0o600
    credential = credential_in(folder)
    assert (credential.name, credential.role, len(credential.peers)) == ("lamp", "device", 3)
    assert not (folder / "ca-key.pem").exists()


def test_an_operator_is_enrolled_where_one_says(peer, tmp_path):
    peer("init", "--data", tmp_path / "ca")
    result = peer("enroll", "ada", "--role", "operator", "--out", tmp_path / "ada", "--data", tmp_path / "ca")
    assert result.exit_code == 0, result.output
    assert credential_in(tmp_path / "ada").role == "operator"


def test_enrolling_again_needs_force_and_gives_another_id(peer, tmp_path):
    peer("init", "--data", tmp_path)
    peer("enroll", "lamp", "--data", tmp_path)
    before = credential_in(tmp_path / "enrolled" / "lamp").peers
    assert peer("enroll", "lamp", "--data", tmp_path).exit_code == 1
    assert peer("enroll", "lamp", "--force", "--data", tmp_path).exit_code == 0
    assert credential_in(tmp_path / "enrolled" / "lamp").peers != before


def test_revoking_a_name_denies_every_certificate_it_ever_had(tmp_path):
    now = time.time()
    registrar = Registrar.create(tmp_path, "house", now, days=10)
    for name in ("lamp", "thief", "thief"):
        registrar.enroll(name, "device", now, virtual=1, days=1, out=None, force=True)
    serials, _ = registrar.revoke("thief", now)
    assert len(serials) == 2
    assert registrar.denylist().serials == set(serials)


def test_the_denylist_only_grows_in_version_and_forgets_the_expired(tmp_path):
    now = time.time()
    registrar = Registrar.create(tmp_path, "house", now, days=100)
    for name in ("old", "new"):
        registrar.enroll(name, "device", now, virtual=1, days=1 if name == "old" else 50, out=None, force=False)
    [old], _ = registrar.revoke("old", now)
    first = registrar.denylist()
    [new], _ = registrar.revoke("new", now + 30 * 86400)
    second = registrar.denylist()
    assert (set(first.serials), set(second.serials)) == ({old}, {new})
    assert second.version > first.version


def test_a_device_enrolled_later_knows_who_is_denied(tmp_path):
    now = time.time()
    registrar = Registrar.create(tmp_path, "house", now, days=10)
    registrar.enroll("thief", "device", now, virtual=1, days=1, out=None, force=False)
    _, signed = registrar.revoke("thief", now)
    registrar.enroll("lamp", "device", now, virtual=1, days=1, out=None, force=False)
    assert (tmp_path / "enrolled" / "lamp" / "denylist").read_bytes() == signed
