"""Encrypt a part before it is coded, so that holders keep what they cannot read.

Every part has a key of its own, which follows from the app's key and the part's name: (app, instance, generation,
epoch, number). The name is also bound as associated data, so a part put in another's place does not open. A name is
used once (naming.py), so no key and nonce ever meet two texts; and sealing the same part again gives the same
bytes, which makes a repeated deposit harmless.

ChaCha20-Poly1305, because small boards have no AES instructions; it does 3 GB/s where they have vectors.
Rejected: a random nonce (a machine throws no dice, and a repeat would be another fragment); one key with a counter
(it would have to survive a crash, in step with the data).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from overlay.frames import Buffer
from recovery.naming import PartId

KEY_BYTES: Final = 32
SEAL_BYTES: Final = 16
"""How much longer a sealed part is."""
_NONCE_BYTES: Final = 12


class SealBroken(Exception):  # noqa: N818 (it says what is)
    """These bytes were not sealed under this key and this name."""


def seal(key: bytes, part: PartId, data: Buffer) -> bytes:
    """
    >>> part = PartId("taxi", "count-0", generation=1, epoch=7, number=0)
    >>> unseal(bytes(32), part, seal(bytes(32), part, b"state"))
    b'state'
    """
    cipher, nonce = _once(key, part)
    return cipher.encrypt(nonce, data, part.to_bytes())


def unseal(key: bytes, part: PartId, sealed: Buffer) -> bytes:
    cipher, nonce = _once(key, part)
    try:
        return cipher.decrypt(nonce, sealed, part.to_bytes())
    except InvalidTag:
        raise SealBroken(f"the {part} does not open: it was sealed under another key or name, or was changed") from None


def _once(key: bytes, part: PartId) -> tuple[ChaCha20Poly1305, bytes]:
    assert len(key) == KEY_BYTES, f"a key has {KEY_BYTES} bytes, not {len(key)}"
    drawn = blake2b(part.to_bytes(), key=key, digest_size=KEY_BYTES + _NONCE_BYTES, person=b"shoal-seal").digest()
    return ChaCha20Poly1305(drawn[:KEY_BYTES]), drawn[KEY_BYTES:]
