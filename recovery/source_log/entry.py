"""One entry of a source log: a header and opaque bytes.

    | magic 4 | kind 1 | 0 3 | bytes 4 | count 4 | start 8 | synced 8 | crc32 of the bytes 4 | crc32 of the header 4 |

The header has a sum of its own, so that a log can be walked without reading what lies between. `synced` is how far
the log was synced when the entry was written: whoever finds the entry knows that everything up to there was promised,
and so can tell a tail that a crash tore from a hole in what should be there.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from struct import Struct
from typing import Final

Buffer = bytes | bytearray | memoryview

MAGIC: Final = b"\xf5SL1"
KIND_MAX: Final = 255
_FIELDS: Final = Struct("<4sB3xIIQQI")
_SUM: Final = Struct("<I")
HEADER_BYTES: Final = _FIELDS.size + _SUM.size


@dataclass(frozen=True, slots=True)
class Header:
    kind: int
    size: int
    count: int
    start: int
    synced: int
    crc: int

    @property
    def end(self) -> int:
        return self.start + self.count

    def is_behind(self, offset: int) -> bool:
        """Does it lie at or after this offset, at least in part? A mark at the offset itself does."""
        return self.end > offset or (self.count == 0 and self.start == offset)

    def pack(self) -> bytes:
        fields = _FIELDS.pack(MAGIC, self.kind, self.size, self.count, self.start, self.synced, self.crc)
        return fields + _SUM.pack(zlib.crc32(fields))


@dataclass(frozen=True, slots=True)
class Entry:
    """What was appended, and how many of its units lie before the offset that was asked for."""

    kind: int
    start: int
    count: int
    payload: memoryview
    skip: int = 0


def parse(block: Buffer, at: int) -> Header | None:
    """The header at this place of a block; None if there is no sound one."""
    if at + HEADER_BYTES > len(block):
        return None
    fields = memoryview(block)[at : at + _FIELDS.size]
    magic, kind, size, count, start, synced, crc = _FIELDS.unpack(fields)
    if magic != MAGIC or _SUM.unpack_from(block, at + _FIELDS.size)[0] != zlib.crc32(fields):
        return None
    return Header(kind, size, count, start, synced, crc)
