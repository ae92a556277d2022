"""Points of the 160-bit id space, and the arithmetic of being near.

A key is a point; a peer id is the key at which a peer lives. Both are plain integers, because routing
compares millions of them: the types exist only for the reader and for mypy.

Nobody can choose where he lives: a peer id is the hash of its public key *and* of a nonce that the cluster
CA drew, so grinding keys until one lands next to a victim gains nothing.

Rejected: a class with methods (a routing decision became four times slower); SHA-1, as kademlia uses it
(BLAKE2b gives 160 bits directly, is faster, and is not broken).
"""

from hashlib import blake2b
from typing import NewType

Key = NewType("Key", int)
PeerId = NewType("PeerId", Key)

ID_BITS = 160
ID_BYTES = ID_BITS // 8
DIGIT_BITS = 4
DIGITS = ID_BITS // DIGIT_BITS
DIGIT_VALUES = 1 << DIGIT_BITS


def key_of(name: str) -> Key:
    """The key of an app, a stream or a source, by its name.

    >>> hex(key_of("alerts"))[:10] == hex(key_of("alerts"))[:10]
    True
    """
    return Key(int.from_bytes(blake2b(name.encode(), digest_size=ID_BYTES, person=b"shoal-name").digest(), "big"))


def peer_id(public_key: bytes, nonce: bytes) -> PeerId:
    """Where the holder of `public_key` lives, given the nonce that the CA wrote into its certificate."""
    digest = blake2b(public_key, digest_size=ID_BYTES, key=nonce, person=b"shoal-peer").digest()
    return PeerId(Key(int.from_bytes(digest, "big")))


def distance(a: Key, b: Key) -> int:
    """How far apart two keys are: XOR, so that every key has one nearest peer and no ties."""
    return a ^ b


def shared_digits(a: Key, b: Key) -> int:
    """How many leading hexadecimal digits two keys have in common: the row of the routing table.

    >>> shared_digits(from_hex("ab" + "0" * 38), from_hex("ac" + "0" * 38))
    1
    """
    return (ID_BITS - (a ^ b).bit_length()) // DIGIT_BITS


def digit_at(key: Key, row: int) -> int:
    """The digit that follows `row` leading ones: the column of the routing table."""
    return (key >> (ID_BITS - DIGIT_BITS * (row + 1))) & (DIGIT_VALUES - 1)


def to_bytes(key: Key) -> bytes:
    return key.to_bytes(ID_BYTES, "big")


def from_bytes(raw: bytes) -> Key:
    """The inverse of `to_bytes`; a wrong length is a `ValueError`."""
    if len(raw) != ID_BYTES:
        raise ValueError(f"an id has {ID_BYTES} bytes, not {len(raw)}")
    return Key(int.from_bytes(raw, "big"))


def to_hex(key: Key) -> str:
    return f"{key:040x}"


def from_hex(text: str) -> Key:
    """The inverse of `to_hex`; anything but 40 hexadecimal digits is a `ValueError`."""
    if len(text) != DIGITS:
        raise ValueError(f"an id has {DIGITS} hexadecimal digits, not {len(text)}")
    return Key(int(text, 16))


def short(key: Key) -> str:
    """The first eight digits: enough for a person to tell peers apart in a log."""
    return to_hex(key)[:8]
