"""A Bloom filter: a set that forgets what is in it but not whether.

>>> known = Bloom(["pier/dust", "quay/dust"], bits=256, hashes=4)
>>> "pier/dust" in known, "moon/dust" in known
(True, False)

Never wrong about a member; about a stranger, once in (1 - e^(-hashes * members / bits)) ^ hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator


class Bloom:
    def __init__(self, members: Iterable[str], *, bits: int, hashes: int) -> None:
        self._bits = bits
        self._hashes = hashes
        self._set = 0
        for member in members:
            for place in self._places(member):
                self._set |= 1 << place

    def __contains__(self, text: str) -> bool:
        return all(self._set >> place & 1 for place in self._places(text))

    def _places(self, text: str) -> Iterator[int]:
        # Two hashes make as many as one likes (Kirsch and Mitzenmacher).
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
        return ((first + number * step) % self._bits for number in range(self._hashes))
