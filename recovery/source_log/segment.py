"""One file of a source log: entries one behind the other, walked by their headers.

Where entries are large, a walk reads a block at each header and nothing between; where they are small, one block has
many of them, with their bytes. A few places in the file are remembered (one each `PLACES_BYTES`), so that reading from
an offset begins near it: memory is some bytes a mebibyte of log, however small the entries.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from recovery.disk import Disk
from recovery.source_log.entry import HEADER_BYTES, MAGIC, Header, parse

BLOCK_BYTES: Final = 1 << 16
PLACES_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """A header at a position of the file, and its bytes if they came along."""

    position: int
    header: Header
    inside: memoryview | None

    @property
    def after(self) -> int:
        return self.position + HEADER_BYTES + self.header.size


@dataclass(slots=True)
class Segment:
    """What is known of one file. `size` is what is sound; more may be there after a failed append."""

    number: int
    name: str
    start: int
    end: int
    size: int = 0
    ends_with_mark: bool = False
    _places: list[tuple[int, int]] = field(default_factory=list)  # (start, position), ascending

    def note(self, position: int, header: Header) -> None:
        """One more entry at the end."""
        if not self._places or position - self._places[-1][1] >= PLACES_BYTES:
            self._places.append((header.start, position))
        self.end = header.end
        self.size = position + HEADER_BYTES + header.size
        self.ends_with_mark = header.count == 0

    def reaches(self, offset: int) -> bool:
        """Is there anything at or after the offset?"""
        return self.end > offset or (self.end == offset and self.ends_with_mark)

    def place(self, offset: int) -> int:
        """A position at or in front of the first entry that reaches the offset."""
        at = bisect_left(self._places, (offset, 0)) - 1
        return self._places[at][1] if at >= 0 else 0


def walk(disk: Disk, name: str, position: int, size: int) -> Iterator[Found]:
    """Whole entries from a position on, up to the first that is not sound."""
    block, begin = memoryview(b""), position
    while position + HEADER_BYTES <= size:
        if position + HEADER_BYTES > begin + len(block):
            block, begin = memoryview(disk.read(name, position, BLOCK_BYTES)), position
        header = parse(block, position - begin)
        if header is None or position + HEADER_BYTES + header.size > size:
            return
        at = position - begin + HEADER_BYTES
        whole = at + header.size <= len(block)
        yield Found(position, header, block[at : at + header.size] if whole else None)
        position += HEADER_BYTES + header.size


def bytes_of(disk: Disk, name: str, found: Found) -> memoryview | None:
    """The bytes of an entry; None if they are not those that were appended."""
    payload = found.inside
    if payload is None:
        payload = memoryview(disk.read(name, found.position + HEADER_BYTES, found.header.size))
    return payload if zlib.crc32(payload) == found.header.crc else None


def synced_beyond(disk: Disk, name: str, position: int, size: int) -> int:
    """How far any sound header in the rest of a file says that the log was synced."""
    synced = 0
    while position < size:
        block = disk.read(name, position, PLACES_BYTES)
        at = block.find(MAGIC)
        while at >= 0:
            header = parse(block, at)
            synced = max(synced, header.synced if header else 0)
            at = block.find(MAGIC, at + 1)
        # A header may lie across the end of a block.
        position += max(1, len(block) - HEADER_BYTES) if len(block) == PLACES_BYTES else len(block) or size
    return synced
