"""Whom the cluster's CA lets in, and whom nobody does."""

import ssl
import time
from random import Random

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.certificates import (
    CERTIFICATE_BYTES_MAX,
    CLOCK_SKEW_S_MAX,
    ROLES,
    VIRTUAL_PEERS_MAX,
    Authority,
    CredentialError,
    Issued,
    read_credential,
    to_der,
)
from overlay.signing import Signer, is_signed

NOW = 1_800_000_000.0
DAY_S = 86_400.0

authority = Authority.create("attic", NOW, days=3650, draw=Random(1).randbytes)
stranger = Authority.create("attic", NOW, days=3650, draw=Random(2).randbytes)
lamp = authority.issue("lamp", "device", NOW, virtual_peers=3, days=30, draw=Random(3).randbytes)


def read(issued: Issued, *, now: float = NOW, **options):
    der = to_der(issued.certificate_pem)
    return read_credential(der, authority_certificate=authority.certificate, now=now, **options)


def refusal(issued: Issued, **options) -> str:
    with pytest.raises(CredentialError) as caught:
        read(issued, **options)
    return caught.value.reason


@pytest.mark.parametrize("role", ROLES)
def test_a_certificate_says_who_holds_it_and_which_peers_he_may_run(role):
    issued = authority.issue("lamp-7", role, NOW, virtual_peers=4, days=30)
    it = read(issued)
    assert (it.name, it.role, it.cluster) == ("lamp-7", role, "attic")
    assert len(set(it.peers)) == 4
    assert it.public_key == Signer.load(issued.key_pem).public_key


def test_nobody_chooses_where_he_lives():
    again = authority.issue("lamp", "device", NOW, virtual_peers=3, days=30)
    assert not set(read(lamp).peers) & set(read(again).peers)


def test_the_largest_certificate_fits_a_record():
    big = authority.issue("x" * 61, "operator", NOW, virtual_peers=VIRTUAL_PEERS_MAX, days=30)
    assert len(to_der(big.certificate_pem)) < CERTIFICATE_BYTES_MAX
    assert len(read(big).peers) == VIRTUAL_PEERS_MAX


def test_a_saved_authority_goes_on_issuing():
    loaded = Authority.load(authority.certificate_pem, authority.key_pem)
    assert read(loaded.issue("kettle", "device", NOW, days=1)).name == "kettle"


def test_an_authority_is_not_loaded_with_the_key_of_another():
    with pytest.raises(ValueError, match="peer init"):
        Authority.load(authority.certificate_pem, stranger.key_pem)


def test_a_ca_of_the_same_name_is_still_foreign():
    assert refusal(stranger.issue("lamp", "device", NOW, days=30)) == "foreign-ca"


def test_the_cas_own_certificate_admits_nobody():
    assert refusal(Issued(authority.certificate_pem, b"")) == "bad-certificate"


def test_dates_count_but_clocks_may_differ_a_little():
    end = NOW + 30 * DAY_S
    assert read(lamp, now=end + CLOCK_SKEW_S_MAX).name == "lamp"
    assert refusal(lamp, now=end + CLOCK_SKEW_S_MAX + 1) == "expired"
    assert refusal(lamp, now=end + 1, allowed_skew_s=0.0) == "expired"
    assert refusal(lamp, now=NOW - 2 * CLOCK_SKEW_S_MAX - 1) == "not-yet-valid"


def test_no_certificate_outlives_its_ca():
    short = Authority.create("tent", NOW, days=2)
    der = to_der(short.issue("torch", "device", NOW, days=900).certificate_pem)
    credential = read_credential(der, authority_certificate=short.certificate, now=NOW)
    assert credential.not_after_s == NOW + 2 * DAY_S


def test_a_revoked_serial_is_refused():
    assert refusal(lamp, revoked={read(lamp).serial}) == "revoked"


@pytest.mark.parametrize(
    ("name", "role", "peers"), [("", "device", 1), ("a\nb", "device", 1), ("x" * 62, "device", 1),
                                ("lamp", "root", 1), ("lamp", "device", 0), ("lamp", "device", 17)]
)
def test_the_ca_issues_no_nonsense(name, role, peers):
    with pytest.raises(ValueError):
        authority.issue(name, role, NOW, virtual_peers=peers, days=1)


def test_no_bit_of_a_certificate_can_be_turned_unnoticed():
    der = to_der(lamp.certificate_pem)
    for bit in range(8 * len(der)):
        changed = bytearray(der)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CredentialError):
            read_credential(bytes(changed), authority_certificate=authority.certificate, now=NOW)


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_one_changed_byte_and_it_is_nobodys_certificate(at, flip):
    der = bytearray(to_der(lamp.certificate_pem))
    der[at % len(der)] ^= flip
    with pytest.raises(CredentialError):
        read_credential(bytes(der), authority_certificate=authority.certificate, now=NOW)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_give_a_credential_error_and_nothing_else(raw):
    with pytest.raises(CredentialError) as caught:
        read_credential(raw, authority_certificate=authority.certificate, now=NOW)
    assert caught.value.reason == "bad-certificate"


@given(body=st.binary(max_size=100), other=st.binary(max_size=100))
@settings(max_examples=50, deadline=None)
def test_a_signature_serves_one_purpose_and_one_body(body, other):
    signer = Signer.load(lamp.key_pem)
    signature = signer.sign("record", body)
    assert is_signed(signer.public_key, "record", body, signature)
    assert not is_signed(signer.public_key, "recor", b"d" + body, signature)
    assert is_signed(signer.public_key, "record", other, signature) == (other == body)
    assert not is_signed(signer.public_key, "record", body, signature[:-1])
    assert not is_signed(b"short", "record", body, signature)


def tls_context(tmp_path, purpose: int, issued: Issued, trusted: Authority) -> ssl.SSLContext:
    files = {"ca": trusted.certificate_pem, "cert": issued.certificate_pem, "key": issued.key_pem}
    for name, pem in files.items():
        (tmp_path / name).write_bytes(pem)
    context = ssl.SSLContext(purpose)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(tmp_path / "ca")
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(one, two), server.wrap_bio(two, one, server_side=True))
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


@pytest.fixture
def today():
    """TLS reads the real clock, so these certificates are made for it."""
    now = time.time()
    return Authority.create("attic", now, days=10), Authority.create("attic", now, days=10), now


def test_mutual_tls_works_on_both_sides_and_shows_the_same_certificate(tmp_path, today):
    ca, _, now = today
    kettle, toaster = (ca.issue(name, "device", now, days=5) for name in ("kettle", "toaster"))
    client, server = shake_hands(
        tls_context(tmp_path, ssl.PROTOCOL_TLS_SERVER, kettle, ca),
        tls_context(tmp_path, ssl.PROTOCOL_TLS_CLIENT, toaster, ca),
    )
    assert server.version() == "TLSv1.3"
    assert client.getpeercert(binary_form=True) == to_der(kettle.certificate_pem)
    assert server.getpeercert(binary_form=True) == to_der(toaster.certificate_pem)


def test_tls_refuses_a_foreign_ca(tmp_path, today):
    ca, other, now = today
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(
            tls_context(tmp_path, ssl.PROTOCOL_TLS_SERVER, other.issue("spy", "device", now, days=5), other),
            tls_context(tmp_path, ssl.PROTOCOL_TLS_CLIENT, ca.issue("toaster", "device", now, days=5), ca),
        )


def test_our_extension_may_be_ignored_by_others():
    certificate = x509.load_pem_x509_certificate(lamp.certificate_pem)
    private = [it for it in certificate.extensions if isinstance(it.value, x509.UnrecognizedExtension)]
    assert len(private) == 1
    assert not private[0].critical
