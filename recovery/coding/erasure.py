"""Cut data into `total` fragments of which any `needed` give it back.

Two methods, behind which the library may change. zfec does the arithmetic (Reed-Solomon over bytes, the first
`needed` fragments are the data itself): it is the one maintained codec that is fast in a wheel, about 1 GB/s for 4
of 6. It checks nothing: a flipped bit, a fragment of another epoch or a wrong index decode to garbage, so nothing
calls this without digests (coded.py). `needed=1` is copies, and costs nothing.

Fragments are views of the caller's data where they can be; only the last, padded one and the parity are new memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import zfec

from overlay.frames import Buffer
from recovery.naming import TOTAL_MAX


class Erasure:
    """
    >>> code = Erasure()
    >>> fragments = code.encode(b"seven words of state", needed=3, total=5)
    >>> code.decode({4: fragments[4], 1: fragments[1], 3: fragments[3]}, needed=3, total=5, size=20)
    b'seven words of state'
    """

    def encode(self, data: Buffer, *, needed: int, total: int) -> list[Buffer]:
        check_shape(needed=needed, total=total)
        if needed == 1:
            return [memoryview(data)] * total
        blocks = _blocks(memoryview(data), needed)
        if total == needed:
            return blocks
        parity: Sequence[bytes] = zfec.Encoder(needed, total).encode(blocks, tuple(range(needed, total)))
        return [*blocks, *parity]

    def decode(self, fragments: Mapping[int, Buffer], *, needed: int, total: int, size: int) -> bytes:
        """Of more than `needed` fragments the lowest indices are taken: they need the least arithmetic."""
        data = b"".join(self.blocks(fragments, needed=needed, total=total))
        assert len(data) >= size, f"{len(fragments)} fragments hold less than {size} bytes"
        return data if len(data) == size else data[:size]

    def blocks(self, fragments: Mapping[int, Buffer], *, needed: int, total: int) -> list[Buffer]:
        """The data, still in its first `needed` fragments."""
        check_shape(needed=needed, total=total)
        taken = sorted(fragments)[:needed]
        assert len(taken) == needed and taken[0] >= 0 and taken[-1] < total, f"fragments {taken}, {needed} of {total}"
        if taken[-1] == needed - 1 or needed == 1:
            return [fragments[index] for index in taken]
        blocks: list[Buffer] = zfec.Decoder(needed, total).decode([fragments[index] for index in taken], taken)
        return blocks


def check_shape(*, needed: int, total: int) -> None:
    assert 1 <= needed <= total <= TOTAL_MAX, f"{needed} of {total} fragments"


def fragment_bytes(size: int, needed: int) -> int:
    """How large every fragment is. Never empty: zfec takes no empty blocks.

    >>> fragment_bytes(20, 3), fragment_bytes(0, 3), fragment_bytes(20, 1)
    (7, 1, 20)
    """
    return size if needed == 1 else max(1, -(-size // needed))


def _blocks(data: memoryview, needed: int) -> list[Buffer]:
    each = fragment_bytes(len(data), needed)
    cuts: list[Buffer] = [data[start : start + each] for start in range(0, each * needed, each)]
    return [cut if len(cut) == each else bytes(cut).ljust(each, b"\0") for cut in cuts]


ERASURE: Final = Erasure()
