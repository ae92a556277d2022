"""What an instance hands in with an epoch, for the record: where its snapshot is, and how far it has come.

    parts      a base and what changed since, each as a `Part`: small ones inline, for the register is three copies
               on three disks already; larger ones in fragments, and the part says where those are
    offset     a source's: units of its log that came before the token
    end        a sink's: rows of the finished stream up to the token
    is_final   everything has ended here; there will be no other snapshot

As plain msgpack arrays. What is wrong with bytes from the wire is a `WireError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from overlay.wire import WireError

INLINE_BYTES_MAX: Final = 1024
"""A part up to this size travels in the record: six holders would cost more than they protect."""
PART_BYTES_MAX: Final = 16 * 1024
PARTS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One snapshot, itself (`is_inline`) or the directions to its fragments; and when it was taken."""

    generation: int
    epoch: int
    is_inline: bool
    data: bytes

    def pack(self) -> list[Any]:
        return [self.generation, self.epoch, self.is_inline, self.data]


@dataclass(frozen=True, slots=True)
class Note:
    parts: tuple[Part, ...] = ()
    offset: int | None = None
    end: int | None = None
    is_final: bool = False

    def pack(self) -> list[Any]:
        return [[it.pack() for it in self.parts], self.offset, self.end, self.is_final]


def unpack_note(value: Any) -> Note:
    if type(value) is not list or len(value) != 4:
        raise WireError("bad-note", "a note has four fields")
    parts, offset, end, is_final = value
    if type(parts) is not list or len(parts) > PARTS_MAX:
        raise WireError("bad-note", f"at most {PARTS_MAX} parts")
    if not (_is_count(offset) and _is_count(end) and type(is_final) is bool):
        raise WireError("bad-note", "a field of another type or size than it can have")
    return Note(tuple(map(_unpack_part, parts)), offset, end, is_final)


def _unpack_part(value: Any) -> Part:
    if type(value) is not list or len(value) != 4:
        raise WireError("bad-note", "a part has four fields")
    generation, epoch, is_inline, data = value
    if not (_is_count(generation) and _is_count(epoch) and type(is_inline) is bool and type(data) is bytes):
        raise WireError("bad-note", "a part is two numbers, a flag and bytes")
    if len(data) > (INLINE_BYTES_MAX if is_inline else PART_BYTES_MAX):
        raise WireError("bad-note", f"a part of {len(data)} bytes")
    return Part(generation, epoch, is_inline, data)


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 1 << 63)
