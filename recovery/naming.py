"""What a snapshot, its parts and their fragments are called, everywhere: on the wire, on disk, in a manifest.

A snapshot of one instance consists of *parts*: a base, the deltas that build on it, each perhaps in slices. A part
is known by the (generation, epoch) in which it was stored and a number; it keeps that name for as long as later
snapshots build on it. A *fragment* is one of the coded pieces of a part, known by its index.

`app` names one launch. The same bundle launched again must come under another name (or with later generations):
names of parts, and the one-time keys that follow from them (coding/sealing.py), are used once.

Two names are equal or they are different fragments. Rejected: a key without generation and epoch (a rolled-back
epoch would overwrite the committed one).
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgpack

from overlay.wire import U16, U32, U64, Kind, Name, WireError, text

APP_BYTES_MAX: Final = 64
"""An app's id: a hash in hexadecimal digits, as its launch made it."""
DIGEST_BYTES: Final = 32
TOTAL_MAX: Final = 64
"""Most fragments of a part. zfec can do 256; nobody has so many neighbours, and each costs a message."""


def digest_of(data: bytes | bytearray | memoryview) -> bytes:
    """The sum by which bytes are recognised: BLAKE2b, 256 bits.

    >>> digest_of(b"a") != digest_of(b"b"), len(digest_of(b""))
    (True, 32)
    """
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _unpack_digest(value: Any) -> bytes:
    if type(value) is not bytes or len(value) != DIGEST_BYTES:
        raise WireError("bad-field", f"expected a digest of {DIGEST_BYTES} bytes, got {type(value).__name__}")
    return value


DIGEST: Final[Kind[bytes]] = Kind(f"a digest of {DIGEST_BYTES} bytes", bytes, _unpack_digest)
Digest = Annotated[bytes, DIGEST]
App = Annotated[str, text(APP_BYTES_MAX)]


@dataclass(frozen=True, slots=True, order=True)
class PartId:
    app: App
    instance: Name
    generation: U64
    epoch: U64
    number: U32

    @property
    def place(self) -> tuple[int, int, int]:
        """What is left of the name within one instance; later ones are greater."""
        return (self.generation, self.epoch, self.number)

    def to_bytes(self) -> bytes:
        """No two names have the same bytes."""
        raw: bytes = msgpack.packb([self.app, self.instance, *self.place])
        return raw

    def __str__(self) -> str:
        where = f"generation {self.generation}, epoch {self.epoch}, number {self.number}"
        return f"part of {self.instance} of {self.app[:12]} ({where})"


@dataclass(frozen=True, slots=True, order=True)
class FragmentId:
    app: App
    instance: Name
    generation: U64
    epoch: U64
    number: U32
    index: U16

    @property
    def part(self) -> PartId:
        return PartId(self.app, self.instance, self.generation, self.epoch, self.number)

    def __str__(self) -> str:
        return f"fragment {self.index} of the {self.part}"


def fragment_of(part: PartId, index: int) -> FragmentId:
    return FragmentId(part.app, part.instance, part.generation, part.epoch, part.number, index)
