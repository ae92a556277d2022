"""Who may be here: the cluster's authority, and the certificates it issues.

One CA makes a cluster. It issues each device, operator or viewer an Ed25519 certificate that says its name
and role and, in an extension of ours, one nonce for every virtual peer that the holder may run. The hash of
the public key and a nonce is a peer id (`ids.peer_id`), so the CA decides how many places of the ring
somebody gets, and nobody decides which.

    subject     CN = name, O = cluster, OU = role
    extension   [format version, [nonce, ...]] in msgpack, not critical: other software may ignore it

The same certificate serves mutual TLS 1.3 (both sides of it) and signs directory records.

Promises: `read_credential` returns a `Credential` only if the CA really signed it and it is valid at `now`;
whatever else comes in gives `CredentialError` with a short reason. The signature is verified before anything
inside is believed. Pure: `now` (seconds since the Unix epoch) and random bytes come in; only where no `draw`
is given do secret keys come from the operating system, because a forgotten argument must not make them weak.

Rejected: names in the SAN (a device has no DNS name, and its address changes); chains of CAs (one more thing
to revoke, and every record would carry the chain); ids from the public key alone (ground in seconds: ids.py).
"""

from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from secrets import token_bytes
from typing import Final

import msgpack
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, SignatureAlgorithmOID

from overlay.ids import PeerId, peer_id
from overlay.signing import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Signer

Draw = Callable[[int], bytes]
"""Gives that many random bytes: `secrets.token_bytes`, or a seeded one in tests and in the simulator."""

ROLES: Final = ("device", "operator", "viewer")
"""device: runs a peer. operator: may launch and stop apps. viewer: may look."""

CERTIFICATE_BYTES_MAX: Final = 2048
"""No certificate is larger; the largest we issue (16 nonces, a long name) has under 1,000 bytes."""
VIRTUAL_PEERS_MAX: Final = 16
"""Most ids of one certificate. More spreads a big device better, and lets it weigh more in the ring."""
NONCE_BYTES: Final = 16
NAME_CHARS_MAX: Final = 61
"""X.509 allows 64 characters; " CA" must still fit behind a cluster's name."""
CLOCK_SKEW_S_MAX: Final = 300.0
"""How far two devices' clocks may differ. More forgives worse clocks; expired things live longer by it."""

_FORMAT_VERSION: Final = 1
_NONCES = x509.ObjectIdentifier("2.25.281620949215873614905472153829604718537")
"""An arc of our own, as X.667 lets anybody draw one from a UUID."""

_Oid = x509.ObjectIdentifier


class CredentialError(ValueError):
    """A certificate that admits nobody. `reason` is a short label for counters.

    Reasons: "bad-certificate", "foreign-ca", "expired", "not-yet-valid", "bad-role", "revoked".
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Issued:
    """What `peer enroll` writes to disk: a certificate for all to see, a key for nobody else."""

    certificate_pem: bytes
    key_pem: bytes


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate that was checked: who holds it, in what role, and which peers he may run."""

    name: str
    role: str
    cluster: str
    peers: tuple[PeerId, ...]
    public_key: bytes
    serial: int
    not_before_s: float
    not_after_s: float
    der: bytes

    def is_current(self, now: float, *, allowed_skew_s: float = CLOCK_SKEW_S_MAX) -> bool:
        return self.not_before_s - allowed_skew_s <= now <= self.not_after_s + allowed_skew_s


class Authority:
    """The cluster's CA, with its private key: what `peer init` makes and `peer enroll` uses.

    >>> authority = Authority.create("attic", 1.8e9, days=3650)
    >>> issued = authority.issue("lamp", "device", 1.8e9, virtual_peers=2, days=365)
    >>> der = to_der(issued.certificate_pem)
    >>> it = read_credential(der, authority_certificate=authority.certificate, now=1.8e9)
    >>> it.name, it.role, it.cluster, len(it.peers)
    ('lamp', 'device', 'attic', 2)
    """

    def __init__(self, certificate: x509.Certificate, key: Ed25519PrivateKey) -> None:
        if certificate.public_key() != key.public_key():
            raise ValueError("the key is not the one of the CA certificate: take both from one `peer init`")
        self.certificate = certificate
        self.cluster = _named(certificate.subject, NameOID.ORGANIZATION_NAME)
        self._key = key
        self._signer = Signer(key)

    @classmethod
    def create(cls, cluster: str, now: float, *, days: float, draw: Draw = token_bytes) -> "Authority":
        """A new cluster. Two clusters of one name are still two: only keys count."""
        _check_name("cluster", cluster)
        key = Ed25519PrivateKey.from_private_bytes(draw(32))
        subject = _subject(name=f"{cluster} CA", cluster=cluster)
        certificate = (
            _certificate(subject, subject, key.public_key(), draw=draw)
            .not_valid_before(_when(now - CLOCK_SKEW_S_MAX))
            .not_valid_after(_when(now) + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, None)
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate_pem: bytes, key_pem: bytes) -> "Authority":
        key = load_pem_private_key(key_pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"the CA's key must be Ed25519, not {type(key).__name__}")
        return cls(load_certificate(certificate_pem), key)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self._key)

    @property
    def public_key(self) -> bytes:
        return self._signer.public_key

    def issue(
        self,
        name: str,
        role: str,
        now: float,
        *,
        virtual_peers: int = 1,
        days: float,
        draw: Draw = token_bytes,
    ) -> Issued:
        """A certificate and its key for `name`. It never outlives the CA."""
        _check_name("peer", name)
        if role not in ROLES:
            raise ValueError(f"a role is one of {', '.join(ROLES)}, not {role!r}")
        if not 1 <= virtual_peers <= VIRTUAL_PEERS_MAX:
            raise ValueError(f"a certificate is for 1 to {VIRTUAL_PEERS_MAX} peers, not {virtual_peers}")
        key = Ed25519PrivateKey.from_private_bytes(draw(32))
        nonces = [draw(NONCE_BYTES) for _ in range(virtual_peers)]
        extension = x509.UnrecognizedExtension(_NONCES, msgpack.packb([_FORMAT_VERSION, nonces]))
        issuer_key = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        both_sides = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        certificate = (
            _certificate(
                _subject(name=name, cluster=self.cluster, role=role),
                self.certificate.subject,
                key.public_key(),
                draw=draw,
            )
            # Valid a little before it was made: the device's clock may be behind the CA's.
            .not_valid_before(_when(now - CLOCK_SKEW_S_MAX))
            .not_valid_after(min(_when(now) + timedelta(days=days), self.certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both_sides), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key), critical=False
            )
            .add_extension(extension, critical=False)
            .sign(self._key, None)
        )
        return Issued(certificate.public_bytes(Encoding.PEM), _key_pem(key))

    def sign(self, domain: str, body: bytes) -> bytes:
        """Sign something for the whole cluster, such as its denylist."""
        return self._signer.sign(domain, body)


def read_credential(
    der: bytes,
    *,
    authority_certificate: x509.Certificate,
    now: float,
    allowed_skew_s: float = CLOCK_SKEW_S_MAX,
    revoked: Container[int] = (),
) -> Credential:
    """Who holds the certificate `der`, if our CA vouches for him now; otherwise `CredentialError`."""
    if len(der) > CERTIFICATE_BYTES_MAX:
        raise CredentialError("bad-certificate", f"{len(der)} bytes, at most {CERTIFICATE_BYTES_MAX}")
    try:
        certificate = x509.load_der_x509_certificate(der)
    except Exception as error:
        # A parser of foreign bytes has many ways to say no, and they differ between releases.
        raise CredentialError("bad-certificate", str(error)[:80]) from None
    _check_issuer(certificate, authority_certificate)
    _check_form(certificate, der)
    try:
        credential = _believe(certificate, der)
    except (ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise CredentialError("bad-certificate", str(error)[:80]) from None
    if credential.role not in ROLES:
        raise CredentialError("bad-role", f"{credential.role[:40]!r} is none of {', '.join(ROLES)}")
    if now < credential.not_before_s - allowed_skew_s:
        raise CredentialError("not-yet-valid", f"{credential.name} from {certificate.not_valid_before_utc}")
    if now > credential.not_after_s + allowed_skew_s:
        raise CredentialError("expired", f"{credential.name} at {certificate.not_valid_after_utc}")
    if credential.serial in revoked:
        raise CredentialError("revoked", f"{credential.name}, serial {credential.serial}")
    return credential


def load_certificate(pem: bytes) -> x509.Certificate:
    """A certificate from its file, as text. For the CA's: what `read_credential` verifies against."""
    return x509.load_pem_x509_certificate(pem)


def to_der(certificate_pem: bytes) -> bytes:
    """As records carry it and as TLS shows it (`SSLObject.getpeercert(binary_form=True)`)."""
    return load_certificate(certificate_pem).public_bytes(Encoding.DER)


def public_key_of(authority_certificate: x509.Certificate) -> bytes:
    """The raw public key of a CA, to verify what it signed with `signing.is_signed`."""
    return authority_certificate.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


_SIGNATURE_HEADER = bytes([0x03, SIGNATURE_BYTES + 1, 0x00])
"""A DER bit string of 64 bytes with no unused bits."""


def _check_issuer(certificate: x509.Certificate, authority: x509.Certificate) -> None:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise CredentialError("foreign-ca", "not signed by the CA of this cluster") from None


def _check_form(certificate: x509.Certificate, der: bytes) -> None:
    """One certificate, one form: what surrounds the signed part is not signed, and the parser forgives too much there.

    The algorithm may be misnamed, and the signature's count of unused bits need not be zero.
    """
    has_form = der.endswith(_SIGNATURE_HEADER + certificate.signature)
    if not has_form or certificate.signature_algorithm_oid != SignatureAlgorithmOID.ED25519:
        raise CredentialError("bad-certificate", "its signature is not written as Ed25519's is")


def _believe(certificate: x509.Certificate, der: bytes) -> Credential:
    """What a certificate says, once its signature is known to be good. A CA's mistake is a `ValueError`."""
    public_key = certificate.public_key()
    if not isinstance(public_key, Ed25519PublicKey):
        raise ValueError("the key is not Ed25519")
    raw_key = public_key.public_bytes_raw()
    assert len(raw_key) == PUBLIC_KEY_BYTES
    return Credential(
        name=_named(certificate.subject, NameOID.COMMON_NAME),
        role=_named(certificate.subject, NameOID.ORGANIZATIONAL_UNIT_NAME),
        cluster=_named(certificate.subject, NameOID.ORGANIZATION_NAME),
        peers=tuple(peer_id(raw_key, nonce) for nonce in _nonces(certificate)),
        public_key=raw_key,
        serial=certificate.serial_number,
        not_before_s=certificate.not_valid_before_utc.timestamp(),
        not_after_s=certificate.not_valid_after_utc.timestamp(),
        der=der,
    )


def _nonces(certificate: x509.Certificate) -> list[bytes]:
    extension = certificate.extensions.get_extension_for_oid(_NONCES).value
    assert isinstance(extension, x509.UnrecognizedExtension)
    version, nonces = msgpack.unpackb(extension.value, max_array_len=VIRTUAL_PEERS_MAX)
    if version != _FORMAT_VERSION:
        raise ValueError(f"nonces of format {version}, expected {_FORMAT_VERSION}")
    if not nonces or any(type(nonce) is not bytes or len(nonce) != NONCE_BYTES for nonce in nonces):
        raise ValueError(f"nonces must be 1 to {VIRTUAL_PEERS_MAX} strings of {NONCE_BYTES} bytes")
    return list(nonces)


def _check_name(what: str, name: str) -> None:
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise ValueError(f"a {what} name has 1 to {NAME_CHARS_MAX} printable characters, not {name!r}")


def _subject(*, name: str, cluster: str, role: str | None = None) -> x509.Name:
    parts = [(NameOID.ORGANIZATION_NAME, cluster), (NameOID.COMMON_NAME, name)]
    if role is not None:
        parts.insert(1, (NameOID.ORGANIZATIONAL_UNIT_NAME, role))
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def _named(subject: x509.Name, oid: _Oid) -> str:
    found = subject.get_attributes_for_oid(oid)
    if len(found) != 1 or not isinstance(found[0].value, str):
        raise ValueError(f"the subject has {len(found)} attributes {oid.dotted_string}, expected one text")
    return found[0].value


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PublicKey, *, draw: Draw
) -> x509.CertificateBuilder:
    # 63 bits: no two certificates of one CA collide, and a serial fits the 64-bit field of a denylist.
    serial = int.from_bytes(draw(8), "big") >> 1 or 1
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
    return builder.public_key(key).serial_number(serial)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _when(now: float) -> datetime:
    return datetime.fromtimestamp(int(now), UTC)
