"""Only what an operator of this cluster signed is run, and every refusal says why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.bundles.bundle import Bundle
from dataflow.bundles.sealing import Sealed, SealError, open_sealed, seal, unpack_sealed
from overlay.certificates import Authority, to_der
from overlay.records import RecordCheck
from overlay.signing import Signer

NOW = 1.8e9
HOUSE = Authority.create("house", NOW, days=100)
BUNDLE = Bundle("app.py", {"app.py": "app = 1"})
READ = RecordCheck(HOUSE.certificate).credential


def enrolled(name, role, authority=HOUSE):
    issued = authority.issue(name, role, NOW, days=10)
    credential = RecordCheck(authority.certificate).credential(to_der(issued.certificate_pem), NOW)
    return Signer.load(issued.key_pem), credential


ANNA = enrolled("anna", "operator")
SEALED = seal(BUNDLE, signer=ANNA[0], credential=ANNA[1])


def signed_by(who, bundle=BUNDLE):
    """As somebody would do it who does not ask whether he may."""
    signer, credential = who
    return Sealed(bundle.packed, credential.der, signer.sign("bundle", bundle.hash))


def refusal(sealed, *, read=READ, now=NOW):
    with pytest.raises(SealError) as caught:
        open_sealed(sealed, read=read, now=now)
    return caught.value


def test_an_operators_bundle_is_taken():
    verified = open_sealed(unpack_sealed(SEALED.pack()), read=READ, now=NOW)
    assert verified.bundle == BUNDLE and verified.signer == "anna"


@pytest.mark.parametrize("role", ["device", "viewer"])
def test_others_may_not_launch_and_are_told_so_on_both_sides(role):
    lamp = enrolled("lamp", role)
    error = refusal(signed_by(lamp))
    assert error.reason == "role"
    assert f'signed by "lamp", whose certificate is that of a {role}; only an operator may launch' in str(error)
    with pytest.raises(SealError, match="peer enroll NAME --role operator"):
        seal(BUNDLE, signer=lamp[0], credential=lamp[1])


@given(st.data())
def test_one_changed_byte_of_the_source_is_seen(data):
    raw = bytearray(SEALED.bundle)
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    error = refusal(replace(SEALED, bundle=bytes(raw)))
    assert error.reason == "tampered" and 'not those that operator "anna" signed' in str(error)


def test_a_signature_of_somebody_else_or_for_something_else_does_not_fit():
    other = enrolled("bert", "operator")
    assert refusal(replace(SEALED, certificate=other[1].der)).reason == "tampered"
    assert refusal(replace(SEALED, signature=ANNA[0].sign("record", BUNDLE.hash))).reason == "tampered"
    assert refusal(replace(SEALED, signature=b"")).reason == "tampered"


def test_another_clusters_operator_is_nobody_here():
    stranger = enrolled("eve", "operator", Authority.create("house", NOW, days=100))
    error = refusal(signed_by(stranger))
    assert error.reason == "foreign-ca" and "another cluster's CA" in str(error)


def test_a_certificate_that_was_taken_back_or_has_ended():
    check = RecordCheck(HOUSE.certificate, revoked={ANNA[1].serial})
    error = refusal(SEALED, read=check.credential)
    assert error.reason == "revoked" and "peer revoke" in str(error)
    error = refusal(SEALED, now=NOW + 11 * 86_400)
    assert error.reason == "expired" and "has expired" in str(error)
    assert refusal(SEALED, now=NOW - 86_400).reason == "not-yet-valid"
    assert refusal(replace(SEALED, certificate=b"nonsense")).reason == "bad-certificate"


@given(st.binary(max_size=300))
def test_foreign_bytes_are_no_sealed_bundle(raw):
    with pytest.raises(SealError) as caught:
        open_sealed(unpack_sealed(raw), read=READ, now=NOW)
    assert caught.value.reason in {"malformed", "bad-certificate"}
