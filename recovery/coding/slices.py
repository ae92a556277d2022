"""Large state goes in slices, each a part of its own.

A fragment travels as the body of one frame, and a frame has a limit; and while one slice is on its way the next can
be coded, so neither side ever holds much more than a few slices. At 4 MiB a fragment, hashing one delays nobody for
long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from overlay.frames import BODY_BYTES_MAX, Buffer
from recovery.coding.sealing import SEAL_BYTES

FRAGMENT_BYTES_MAX: Final = 4 * 1024 * 1024
assert FRAGMENT_BYTES_MAX <= BODY_BYTES_MAX


def slices(data: Buffer, *, needed: int) -> Iterator[memoryview]:
    """Views of `data` that, sealed, give fragments within the limit. No data is one empty slice.

    >>> [len(it) for it in slices(bytes(9_000_000), needed=2)]
    [8388592, 611408]
    """
    view = memoryview(data).cast("B")
    each = needed * FRAGMENT_BYTES_MAX - SEAL_BYTES
    for start in range(0, max(1, len(view)), each):
        yield view[start : start + each]
