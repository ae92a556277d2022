"""What the directory keeps: small signed statements with a time to live.

A record says "I, this peer, offer this under that name": a source, an app, a stream, a scheduler, the
keeper of an app. It carries its publisher's certificate and signature, so nobody needs to trust the peer
that hands it over, and it ends by itself when its publisher falls silent. A withdrawn record is a record
too: a *tombstone* with a higher sequence, which outlives what it withdraws.

`RecordCheck` is the whole policy of what to believe. It gives the reason for a refusal, or None:

    wrong-key            the key is not that of kind and name
    bad-ttl              lives too short or too long
    expired              its time to live is over
    from-the-future      issued later than any honest clock may say
    foreign-ca, bad-certificate, bad-role, not-yet-valid, expired-certificate, revoked     (certificates.py)
    wrong-publisher      the certificate is somebody else's
    role                 its holder may not publish this kind
    forged               the signature does not fit

("replayed", an older sequence than we hold, is the holder's own finding: directory.py.)

An expiry is judged without grace for clocks: a publisher's clock that is behind by d shortens its records
by d, and re-publishing at a third of the TTL forgives two thirds of it. Grace would make every dead
publisher live longer.

Pure: `now` comes in. Rejected: records without the certificate, with a second look-up for it (twice the
messages for 700 bytes); trusting holders (one bad peer among k could then invent sources).
"""

from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Annotated, Final

import msgpack
from cryptography import x509

from overlay.certificates import (
    CERTIFICATE_BYTES_MAX,
    CLOCK_SKEW_S_MAX,
    Credential,
    CredentialError,
    read_credential,
)
from overlay.ids import Key, PeerId, key_of
from overlay.signing import SIGNATURE_BYTES, Signer, is_signed
from overlay.wire import U64, Flag, Name, Seconds, WireKey, WirePeer, blob, kinds_of, one_of

MAY_PUBLISH: Final = {
    "app": frozenset({"operator"}),
    "keeper": frozenset({"device", "operator"}),
    "offers": frozenset({"device", "operator"}),
    "scheduler": frozenset({"device", "operator"}),
    "source": frozenset({"device", "operator"}),
    "stream": frozenset({"device", "operator"}),
}
"""Which roles may publish which kind of record. Only operators launch apps; viewers publish nothing."""

VALUE_BYTES_MAX: Final = 4096
"""A record is a pointer and a description, not data. Eight of the largest still fit one control message."""
TTL_S_MIN: Final = 10.0
"""Shorter-lived records would be re-published more often than gossip runs."""
TTL_S_MAX: Final = 86_400.0
"""Longer-lived ones would keep the dead in the directory for days; it also bounds how long a tombstone is
kept."""
CREDENTIALS_CACHED_MAX: Final = 256
"""Certificates whose verification is remembered: about 400 KiB, and saves 190 us for each record of a known
publisher. Fewer than the publishers around one key makes a hand-over twice as slow."""

_DOMAIN = "record"


@dataclass(frozen=True, slots=True)
class Record:
    """One statement of one publisher. The highest `sequence` of a (kind, name, publisher) is the valid
    one."""

    kind: Annotated[str, one_of(*sorted(MAY_PUBLISH))]
    name: Name
    key: WireKey
    publisher: WirePeer
    sequence: U64
    issued_s: Seconds
    ttl_s: Seconds
    is_withdrawn: Flag
    value: Annotated[bytes, blob(VALUE_BYTES_MAX)]
    certificate: Annotated[bytes, blob(CERTIFICATE_BYTES_MAX)] = b""
    signature: Annotated[bytes, blob(SIGNATURE_BYTES)] = b""

    @property
    def expires_s(self) -> float:
        return self.issued_s + self.ttl_s

    @property
    def bytes_about(self) -> int:
        """Its size on the wire, a little overestimated, to fill messages without encoding everything
        twice."""
        return len(self.value) + len(self.certificate) + len(self.name.encode()) + 192


def record_key(kind: str, name: str) -> Key:
    """Where records of this kind and name are kept."""
    return key_of(f"{kind}:{name}")


def draft(
    kind: str,
    name: str,
    *,
    publisher: PeerId,
    value: bytes,
    now: float,
    ttl_s: float,
    sequence: int | None = None,
    is_withdrawn: bool = False,
) -> Record:
    """A record that nobody has signed yet. Its sequence is the time in ms: it grows over restarts by
    itself."""
    if kind not in MAY_PUBLISH:
        raise ValueError(f"a record's kind is one of {', '.join(sorted(MAY_PUBLISH))}, not {kind!r}")
    if len(value) > VALUE_BYTES_MAX:
        raise ValueError(f"a record holds {VALUE_BYTES_MAX} bytes, not {len(value)}: say where the rest is")
    return Record(
        kind=kind,
        name=name,
        key=record_key(kind, name),
        publisher=publisher,
        sequence=int(now * 1000) if sequence is None else sequence,
        issued_s=now,
        ttl_s=ttl_s,
        is_withdrawn=is_withdrawn,
        value=value,
    )


def sign_record(record: Record, *, signer: Signer, certificate: bytes) -> Record:
    """The same statement, vouched for. `certificate` is the signer's own, as DER."""
    vouched = replace(record, certificate=certificate)
    return replace(vouched, signature=signer.sign(_DOMAIN, _signed_part(vouched)))


_SIGNED_FIELDS = tuple(zip(Record.__slots__, kinds_of(Record), strict=True))[:-1]


def _signed_part(record: Record) -> bytes:
    """Everything but the signature, the certificate included: nobody can pass it off as another holder's."""
    raw: bytes = msgpack.packb([kind.pack(getattr(record, name)) for name, kind in _SIGNED_FIELDS])
    return raw


class RecordCheck:
    """Shall we believe this record? Remembers certificates that it has verified, and forgets the oldest.

    >>> from overlay.certificates import Authority, to_der
    >>> authority = Authority.create("attic", 1.8e9, days=10)
    >>> issued = authority.issue("lamp", "device", 1.8e9, days=10)
    >>> check = RecordCheck(authority.certificate)
    >>> lamp = check.credential(to_der(issued.certificate_pem), 1.8e9)
    >>> blank = draft("source", "light", publisher=lamp.peers[0], value=b"", now=1.8e9, ttl_s=60)
    >>> signed = sign_record(blank, signer=Signer.load(issued.key_pem), certificate=lamp.der)
    >>> check(signed, 1.8e9), check(signed, 1.8e9 + 61), check(replace(signed, value=b"x"), 1.8e9)
    (None, 'expired', 'forged')
    """

    def __init__(self, authority_certificate: x509.Certificate, *, revoked: Container[int] = ()) -> None:
        self._authority = authority_certificate
        self.revoked = revoked
        """Serials that no longer count. Replaced whenever a new denylist arrives."""
        self._verified: OrderedDict[bytes, Credential] = OrderedDict()

    def __call__(self, record: Record, now: float) -> str | None:
        """The reason to refuse `record`, or None. What is cheap to see is looked at first."""
        if record.key != record_key(record.kind, record.name):
            return "wrong-key"
        if not TTL_S_MIN <= record.ttl_s <= TTL_S_MAX:
            return "bad-ttl"
        if now >= record.expires_s:
            return "expired"
        if record.issued_s > now + CLOCK_SKEW_S_MAX:
            return "from-the-future"
        try:
            credential = self.credential(record.certificate, now)
        except CredentialError as error:
            return "expired-certificate" if error.reason == "expired" else error.reason
        if record.publisher not in credential.peers:
            return "wrong-publisher"
        if credential.role not in MAY_PUBLISH[record.kind]:
            return "role"
        if not is_signed(credential.public_key, _DOMAIN, _signed_part(record), record.signature):
            return "forged"
        return None

    def credential(self, der: bytes, now: float) -> Credential:
        """Who holds this certificate, or `CredentialError`. Dates and the denylist are looked at every
        time."""
        known = self._verified.get(der)
        if known is not None and known.is_current(now) and known.serial not in self.revoked:
            self._verified.move_to_end(der)
            return known
        credential = read_credential(
            der, authority_certificate=self._authority, now=now, revoked=self.revoked
        )
        self._verified[der] = credential
        if len(self._verified) > CREDENTIALS_CACHED_MAX:
            self._verified.popitem(last=False)
        return credential
