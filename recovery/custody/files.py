"""One fragment as one file: a header that says what it is, then the fragment.

    | magic 4 | header bytes 2 | header: msgpack [fragment, size, digest] | digest of all before, 16 | fragment |

The file's name is for people and for looking it up; the header is what counts after a restart. Bytes that are no
such file are `Damaged`, with the reason as a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Final

import msgpack

from overlay.frames import Buffer
from overlay.wire import WireError, struct
from recovery.custody.messages import Held
from recovery.naming import FragmentId, digest_of

PREFIX: Final = "fragment."
HEADER_BYTES_MAX: Final = 1024
"""All of a header is within the first so many bytes of a file."""
_START: Final = Struct(">4sH")
_MAGIC: Final = b"SHF1"
_SUM_BYTES: Final = 16
_HELD: Final = struct(Held)


class Damaged(Exception):  # noqa: N818 (it says what is)
    """A file that does not hold what it should."""


@dataclass(frozen=True, slots=True)
class Header:
    held: Held
    header_bytes: int

    @property
    def file_bytes(self) -> int:
        return self.header_bytes + self.held.size


def file_name(fragment: FragmentId) -> str:
    """Readable to a point; the sum at the end tells apart what looks alike.

    >>> file_name(FragmentId("taxi", "count/0", 1, 7, 0, 2))[:28]
    'fragment.taxi.count-0.1.7.0.'
    """
    part = fragment.part
    told = [_safe(fragment.instance)[:24], *map(str, part.place), str(fragment.index)]
    tells_apart = blake2b(part.to_bytes() + bytes(str(fragment.index), "ascii"), digest_size=12).hexdigest()
    return file_prefix(fragment.app) + ".".join([*told, tells_apart])


def file_prefix(app: str) -> str:
    """How the names of an app's files begin."""
    return f"{PREFIX}{_safe(app)[:24]}."


def _safe(text: str) -> str:
    return "".join(it if it.isascii() and it.isalnum() else "-" for it in text)


def header_of(held: Held) -> bytes:
    packed: bytes = msgpack.packb(_HELD.pack(held))
    start = _START.pack(_MAGIC, len(packed)) + packed
    return start + _sum(start)


def file_of(held: Held, fragment: Buffer) -> bytes:
    return b"".join((header_of(held), fragment))


def read_header(start: bytes) -> Header:
    """From the first bytes of a file."""
    if len(start) < _START.size or start[:4] != _MAGIC:
        raise Damaged("it does not begin like a fragment")
    end = _START.size + _START.unpack_from(start)[1]
    if len(start) < end + _SUM_BYTES or start[end : end + _SUM_BYTES] != _sum(start[:end]):
        raise Damaged("its header is incomplete or was changed")
    try:
        held = _HELD.unpack(msgpack.unpackb(start[_START.size : end], max_map_len=0, max_ext_len=0))
    except (WireError, ValueError, TypeError, msgpack.UnpackException):
        raise Damaged("its header says nothing that we know") from None
    return Header(held, end + _SUM_BYTES)


def read_file(data: bytes, wanted: FragmentId) -> memoryview:
    """The fragment in a file, checked."""
    header = read_header(data[:HEADER_BYTES_MAX])
    if header.held.fragment != wanted:
        raise Damaged(f"it holds the {header.held.fragment}")
    if header.file_bytes != len(data):
        raise Damaged(f"it has {len(data)} bytes where {header.file_bytes} were written")
    fragment = memoryview(data)[header.header_bytes :]
    if digest_of(fragment) != header.held.digest:
        raise Damaged("its digest is not what it was")
    return fragment


def _sum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SUM_BYTES).digest()
