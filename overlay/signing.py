"""Sign bytes, and say what for.

Every signature is bound to a *domain*, a short word for the kind of thing that is signed. So a signature that
a peer gave for one purpose can never be shown to somebody as if it were given for another.

    signer.sign("record", body)             # what the key's holder does
    is_signed(public_key, "record", body, signature)

Pure: an Ed25519 signature needs no random numbers. To verify costs 60-290 us: whoever verifies the same thing
often keeps the verdict.
Rejected: Ed25519ctx, whose context is the same idea; `cryptography` does not offer it.
"""

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

SIGNATURE_BYTES: Final = 64
PUBLIC_KEY_BYTES: Final = 32


def _bound(domain: str, body: bytes) -> bytes:
    """What is really signed. The zero byte ends the domain, so that no domain is the start of another."""
    assert domain and "\0" not in domain, f"not a domain: {domain!r}"
    return b"shoal " + domain.encode() + b"\0" + body


class Signer:
    """A private key, able to sign and to do nothing else.

    >>> signer = Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))
    >>> signature = signer.sign("record", b"hello")
    >>> is_signed(signer.public_key, "record", b"hello", signature)
    True
    >>> is_signed(signer.public_key, "denylist", b"hello", signature)
    False
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw()

    @classmethod
    def load(cls, key_pem: bytes) -> "Signer":
        """The signer of an `Issued.key_pem`; anything but an Ed25519 key in PEM is a `ValueError`."""
        try:
            key = load_pem_private_key(key_pem, password=None)
        except TypeError as error:  # the key is encrypted, and we have no password to offer
            raise ValueError(str(error)) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"expected an Ed25519 key, got {type(key).__name__}")
        return cls(key)

    def sign(self, domain: str, body: bytes) -> bytes:
        return self._key.sign(_bound(domain, body))


def is_signed(public_key: bytes, domain: str, body: bytes, signature: bytes) -> bool:
    """Did the holder of `public_key` sign `body` for this domain? Malformed keys and signatures are a no."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, _bound(domain, body))
    except (InvalidSignature, ValueError):
        return False
    return True
