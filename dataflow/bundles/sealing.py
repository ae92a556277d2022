"""Who vouches for a bundle: an operator's certificate and signature over its hash.

A host believes a sealed bundle only if our CA issued the signer's certificate, the signer is an operator, nobody took
the certificate back, and the signature fits these very bytes. Each of them is refused with a sentence of its own.

Only `open_sealed` (for what came from elsewhere) and `trusted_here` (for what this machine's own user or our own
parent process handed over) make a `Verified`, and only a `Verified` can be imported: source is never compiled
before somebody has answered for it.

Pure: how a certificate is read comes in as a function (a peer passes `Identity.read`, which knows CA, dates and
denylist), and so does the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgpack

from dataflow.bundles.bundle import BUNDLE_BYTES_MAX, Bundle, unpack
from dataflow.errors import AppError
from overlay.certificates import CERTIFICATE_BYTES_MAX, Credential, CredentialError
from overlay.signing import SIGNATURE_BYTES, Signer, is_signed

ReadCredential = Callable[[bytes, float], Credential]
"""Who holds this certificate (DER) now; raises `CredentialError`."""

ROLE: Final = "operator"
SEALED_BYTES_MAX: Final = BUNDLE_BYTES_MAX + CERTIFICATE_BYTES_MAX + SIGNATURE_BYTES + 64
_DOMAIN: Final = "bundle"

_WHY = {
    "foreign-ca": "it is signed with a certificate of another cluster's CA, so nobody here vouches for it. "
    "Sign it with a certificate that `peer enroll NAME --role operator` made for this cluster",
    "revoked": "its signer's certificate was taken back with `peer revoke`. Let an operator sign it who still has one",
    "expired": "its signer's certificate has expired. Make a new one with `peer enroll NAME --role operator --force`",
    "not-yet-valid": "its signer's certificate is not valid yet. Compare the clocks of both devices",
}
"""What a refused certificate means to the one who launches, by `CredentialError.reason`."""


class SealError(AppError):
    """A bundle that nobody may run. `reason` is a short label for counters.

    Reasons: "malformed", "tampered", "role", and those of `CredentialError`.
    """

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(f"the bundle is refused: {why}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Sealed:
    """A bundle's bytes, whose certificate it is signed with, and the signature."""

    bundle: bytes
    certificate: bytes
    signature: bytes

    def pack(self) -> bytes:
        return bytes(msgpack.packb([self.bundle, self.certificate, self.signature]))


@dataclass(frozen=True, slots=True)
class Verified:
    """A bundle that may be imported, and who answers for it."""

    bundle: Bundle
    signer: str


def seal(bundle: Bundle, *, signer: Signer, credential: Credential) -> Sealed:
    """Vouch for a bundle. Somebody who may not launch is told here, not by the first host."""
    _check_role(credential)
    return Sealed(bundle.packed, credential.der, signer.sign(_DOMAIN, bundle.hash))


def unpack_sealed(raw: bytes) -> Sealed:
    """The three parts, not yet believed; anything else is a `SealError`."""
    if len(raw) > SEALED_BYTES_MAX:
        raise SealError("malformed", f"it has {len(raw):,} bytes, and at most {SEALED_BYTES_MAX:,} are taken")
    try:
        parts = msgpack.unpackb(raw, max_array_len=3, max_map_len=0, max_ext_len=0, max_str_len=0)
    except Exception:  # a parser of foreign bytes has many ways to say no
        parts = None
    if type(parts) is not list or len(parts) != 3 or any(type(part) is not bytes for part in parts):
        raise SealError("malformed", "its bytes are not those of a sealed bundle. Launch it again with `peer launch`")
    return Sealed(*parts)


def open_sealed(sealed: Sealed, *, read: ReadCredential, now: float) -> Verified:
    """The bundle, once everything about its signer is found to be in order; otherwise `SealError`."""
    try:
        credential = read(sealed.certificate, now)
    except CredentialError as error:
        why = _WHY.get(error.reason, f"its signer's certificate is of no use ({error.detail})")
        raise SealError(error.reason, why) from None
    _check_role(credential)
    bundle = _bundle_if_signed(sealed, credential)
    return Verified(bundle, credential.name)


def trusted_here(bundle: Bundle) -> Verified:
    """For a bundle that never crossed a border: made of this user's own files, or handed down by our parent."""
    return Verified(bundle, "this machine")


def _bundle_if_signed(sealed: Sealed, credential: Credential) -> Bundle:
    digest = sha256(sealed.bundle).digest()
    if not is_signed(credential.public_key, _DOMAIN, digest, sealed.signature):
        raise SealError(
            "tampered",
            f'its bytes are not those that operator "{credential.name}" signed: it was changed on the way. '
            "Launch it again from the source",
        )
    return unpack(sealed.bundle)


def _check_role(credential: Credential) -> None:
    if credential.role != ROLE:
        raise SealError(
            "role",
            f'it is signed by "{credential.name}", whose certificate is that of a {credential.role}; only an operator '
            f"may launch. Sign it with a certificate that `peer enroll NAME --role {ROLE}` made",
        )
