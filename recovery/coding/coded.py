"""Fragments with digests: whatever is wrong with one is noticed before it is decoded.

A fragment counts only if its digest is the one that the manifest gives for its index. So a flipped byte, a fragment
of another epoch or of another index are simply missing fragments, and others are taken.

The digest of the whole is a digest over the size, the shape and the digests of the first `needed` fragments, which
are the data. It promises as much as a digest of all the bytes, and saves hashing them twice: when a part comes
back, only what was computed is hashed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from overlay.frames import Buffer
from recovery.coding.erasure import ERASURE, fragment_bytes
from recovery.naming import digest_of


class TooFewFragments(Exception):  # noqa: N818 (it says what is)
    """Not enough good fragments to decode."""

    def __init__(self, *, needed: int, found: int) -> None:
        super().__init__(f"{needed} good fragments are needed and {found} were found")
        self.needed = needed
        self.found = found


class WrongDigest(Exception):  # noqa: N818 (it says what is)
    """What was decoded is not what was coded, although every fragment was right: the manifest is wrong."""


@dataclass(frozen=True, slots=True)
class Shape:
    """All that must be known to get a part back from its fragments."""

    size: int
    needed: int
    total: int
    digest: bytes
    digests: tuple[bytes, ...]

    def is_good(self, index: int, fragment: Buffer) -> bool:
        return (
            0 <= index < self.total
            and len(fragment) == fragment_bytes(self.size, self.needed)
            and digest_of(fragment) == self.digests[index]
        )


@dataclass(frozen=True, slots=True)
class Coded:
    shape: Shape
    fragments: tuple[Buffer, ...]


def code(data: Buffer, *, needed: int, total: int) -> Coded:
    """
    >>> coded = code(b"state", needed=2, total=3)
    >>> uncode({0: b"sta", 2: b"rot"}, coded.shape)
    Traceback (most recent call last):
    ...
    recovery.coding.coded.TooFewFragments: 2 good fragments are needed and 1 were found
    >>> uncode({1: coded.fragments[1], 2: coded.fragments[2]}, coded.shape)
    b'state'
    """
    fragments = ERASURE.encode(data, needed=needed, total=total)
    digests = (digest_of(fragments[0]),) * total if needed == 1 else tuple(digest_of(it) for it in fragments)
    whole = whole_digest(len(data), needed=needed, total=total, digests=digests)
    return Coded(Shape(len(data), needed, total, whole, digests), tuple(fragments))


def uncode(fragments: Mapping[int, Buffer], shape: Shape) -> bytes:
    """The data. Each fragment is checked; `uncode_good` spares it for those that were checked on arrival."""
    return uncode_good({index: it for index, it in fragments.items() if shape.is_good(index, it)}, shape)


def uncode_good(fragments: Mapping[int, Buffer], shape: Shape) -> bytes:
    data = b"".join(_checked_blocks(fragments, shape))
    return data if len(data) == shape.size else data[: shape.size]


def rebuild(fragments: Mapping[int, Buffer], shape: Shape, indices: Iterable[int]) -> dict[int, Buffer]:
    """Lost fragments, from good ones. They are as good: each has the digest that the lost one had."""
    blocks = _checked_blocks(fragments, shape)
    joined = blocks[0] if shape.needed == 1 else b"".join(blocks)
    all_of_them = ERASURE.encode(joined, needed=shape.needed, total=shape.total)
    rebuilt = {index: all_of_them[index] for index in sorted(indices)}
    for index, fragment in rebuilt.items():
        if not shape.is_good(index, fragment):
            raise WrongDigest(f"fragment {index} was rebuilt and is not what it was")
    return rebuilt


def whole_digest(size: int, *, needed: int, total: int, digests: Sequence[bytes]) -> bytes:
    """Over the data alone: parity follows from it."""
    shape = size.to_bytes(8, "big") + needed.to_bytes(2, "big") + total.to_bytes(2, "big")
    return digest_of(shape + b"".join(digests[:needed]))


def _checked_blocks(fragments: Mapping[int, Buffer], shape: Shape) -> list[Buffer]:
    if len(fragments) < shape.needed:
        raise TooFewFragments(needed=shape.needed, found=len(fragments))
    blocks = ERASURE.blocks(fragments, needed=shape.needed, total=shape.total)
    sums = [shape.digests[index] if index in fragments else digest_of(block) for index, block in enumerate(blocks)]
    if whole_digest(shape.size, needed=shape.needed, total=shape.total, digests=sums) != shape.digest:
        raise WrongDigest(f"{shape.size} bytes were decoded and are not what was coded")
    return blocks
