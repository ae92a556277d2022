"""Cut a byte stream into frames, and check every limit before anything is read.

    | magic 1 | version 1 | kind 1 | flags 1 | control bytes 4 | body bytes 4 | crc32 of the body 4 |
    | control: to 20, from 20, then a msgpack message (CONTROL) or what the data plane likes (DATA)  |
    | body: opaque                                                                                   |

The envelope (to, from) lets one connection between two processes carry all their virtual peers. A body
larger than `PIECE_BYTES` is *cut*: the DATA frame announces all of it but carries only its control part, and
the body follows in PIECE frames, between which CONTROL frames may slip. So 16 MiB on a slow link never delay
a ping, and the receiver still fills one buffer, allocated once.

Promises: the reader never allocates more than the header may announce, however the stream is cut; whatever is
wrong with a header is a `WireError`. Every frame has fresh buffers: they may be kept for ever. Senders pass
lists of buffers on, nothing is concatenated.

Pure: `FrameReader.space` says where the next bytes belong, `advance` says how many came.
Rejected: a varint length (the limits would be checked byte by byte); a second connection for data (a second
handshake, and it dies at another moment than the first).
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from struct import Struct
from typing import Final

from overlay.ids import ID_BYTES, PeerId, from_bytes, to_bytes
from overlay.wire import CONTROL_BYTES_MAX, WireError

Buffer = bytes | bytearray | memoryview

MAGIC: Final = 0xF1  # neither a TLS record (0x16) nor a letter: a stranger's protocol fails on its first byte
VERSION: Final = 1
HEADER_BYTES: Final = 16
ENVELOPE_BYTES: Final = 2 * ID_BYTES
CONTROL_PART_BYTES_MAX: Final = ENVELOPE_BYTES + CONTROL_BYTES_MAX
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
PIECE_BYTES: Final = 128 * 1024
"""A control frame waits for at most one piece: 0.1 s on a 10 Mbit/s link. Smaller pieces cost more calls."""

FLAG_CUT: Final = 1
"""The body follows in PIECE frames."""
FLAG_CRC: Final = 2
"""The header carries the body's crc32. Relays do not check it; the last reader does."""

HOPS_MAX: Final = 15
"""A DATA frame may be handed on so often; how often it still may is in the upper half of its flags."""
_HOPS_SHIFT: Final = 4

_HEADER = Struct(">BBBBIII")
assert _HEADER.size == HEADER_BYTES

NOBODY: Final = from_bytes(bytes(ID_BYTES))
"""Whom a HELLO is addressed to: we do not know yet who listens there."""


class FrameKind(IntEnum):
    CONTROL = 1
    DATA = 2
    PIECE = 3


_FLAGS_ALLOWED: Final = {
    FrameKind.CONTROL: 0,
    FrameKind.DATA: FLAG_CUT | FLAG_CRC | HOPS_MAX << _HOPS_SHIFT,
    FrameKind.PIECE: 0,
}


@dataclass(frozen=True, slots=True)
class Header:
    kind: FrameKind
    flags: int
    control_bytes: int
    body_bytes: int
    body_crc: int = 0

    @property
    def hops_left(self) -> int:
        """How often the frame may still be handed on; 0 for one that goes straight to its reader."""
        return self.flags >> _HOPS_SHIFT


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame; a cut body has been put together again."""

    header: Header
    control: memoryview
    body: memoryview

    @property
    def to(self) -> PeerId:
        return PeerId(from_bytes(bytes(self.control[:ID_BYTES])))

    @property
    def sender(self) -> PeerId:
        return PeerId(from_bytes(bytes(self.control[ID_BYTES:ENVELOPE_BYTES])))

    @property
    def content(self) -> memoryview:
        """What follows the envelope: a message, or the data plane's own header."""
        return self.control[ENVELOPE_BYTES:]

    def check_body(self) -> None:
        """Raise `WireError` if the body is not what its sender summed."""
        if self.header.flags & FLAG_CRC and zlib.crc32(self.body) != self.header.body_crc:
            raise WireError("bad-crc", f"a body of {len(self.body)} bytes was damaged on its way")


def pack_header(header: Header) -> bytes:
    return _HEADER.pack(
        MAGIC, VERSION, header.kind, header.flags, header.control_bytes, header.body_bytes, header.body_crc
    )


def parse_header(raw: Buffer) -> Header:
    """The header in 16 bytes, with every limit checked, or `WireError`."""
    magic, version, kind_byte, flags, control_bytes, body_bytes, body_crc = _HEADER.unpack(raw)
    if magic != MAGIC:
        raise WireError("not-a-frame", f"the stream starts with {bytes(raw[:4]).hex()}")
    if version != VERSION:
        raise WireError("version", f"frame version {version}, we speak {VERSION}")
    try:
        kind = FrameKind(kind_byte)
    except ValueError:
        raise WireError("unknown-frame", f"kind {kind_byte}") from None
    if flags & ~_FLAGS_ALLOWED[kind]:
        raise WireError("bad-frame", f"flags {flags:#x} on {kind.name}")
    if control_bytes > CONTROL_PART_BYTES_MAX or body_bytes > BODY_BYTES_MAX:
        raise WireError("oversize", f"{kind.name} announces {control_bytes} + {body_bytes} bytes")
    if kind is FrameKind.PIECE:
        if control_bytes or not body_bytes or body_bytes > PIECE_BYTES:
            raise WireError("bad-frame", f"a piece of {control_bytes} + {body_bytes} bytes")
    elif control_bytes < ENVELOPE_BYTES:
        raise WireError("bad-frame", f"{control_bytes} control bytes hold no envelope")
    if kind is FrameKind.CONTROL and body_bytes:
        raise WireError("bad-frame", f"a control frame with a body of {body_bytes} bytes")
    if flags & FLAG_CUT and not body_bytes:
        raise WireError("bad-frame", "an empty body was cut")
    return Header(kind, flags, control_bytes, body_bytes, body_crc)


def control_frame(to: PeerId, sender: PeerId, content: bytes) -> bytes:
    """A whole CONTROL frame. Small, so joined at once: one buffer, one TLS record."""
    size = ENVELOPE_BYTES + len(content)
    assert size <= CONTROL_PART_BYTES_MAX, f"a control part of {size} bytes"
    return b"".join((pack_header(Header(FrameKind.CONTROL, 0, size, 0)), to_bytes(to), to_bytes(sender), content))


def data_frame(
    to: PeerId, sender: PeerId, content: bytes, body: Sequence[Buffer], *, hops_left: int = 0
) -> Iterator[list[Buffer]]:
    """The buffers of a DATA frame, in portions between which a CONTROL frame may be sent."""
    views = [view for view in (memoryview(each).cast("B") for each in body) if len(view)]
    body_bytes = sum(map(len, views))
    if ENVELOPE_BYTES + len(content) > CONTROL_PART_BYTES_MAX or body_bytes > BODY_BYTES_MAX:
        limits = f"at most {CONTROL_BYTES_MAX} + {BODY_BYTES_MAX}"
        raise WireError("oversize", f"{len(content)} + {body_bytes} bytes, {limits}")
    is_cut = body_bytes > PIECE_BYTES
    assert 0 <= hops_left <= HOPS_MAX
    flags = FLAG_CRC | (FLAG_CUT if is_cut else 0) | hops_left << _HOPS_SHIFT
    header = Header(FrameKind.DATA, flags, ENVELOPE_BYTES + len(content), body_bytes, crc_of(views))
    start = b"".join((pack_header(header), to_bytes(to), to_bytes(sender), content))
    return _portions(start, views, is_cut)


def relayed_frame(frame: Frame) -> Iterator[list[Buffer]]:
    """The same frame for the next hop, with one hop less to go: neither opened nor summed."""
    assert frame.header.hops_left, "a frame that may not be handed on"
    header = replace(frame.header, flags=frame.header.flags - (1 << _HOPS_SHIFT))
    return _portions(pack_header(header) + frame.control, [frame.body], bool(header.flags & FLAG_CUT))


def _portions(start: bytes, views: list[memoryview], is_cut: bool) -> Iterator[list[Buffer]]:
    if not is_cut:
        yield [start, *views]
        return
    yield [start]
    for piece in _pieces(views):
        yield [pack_header(Header(FrameKind.PIECE, 0, 0, sum(map(len, piece)))), *piece]


def _pieces(views: Iterable[memoryview]) -> Iterator[list[memoryview]]:
    """Groups of views of `PIECE_BYTES` each, the last one shorter."""
    piece: list[memoryview] = []
    room = PIECE_BYTES
    for view in views:
        while len(view) >= room:
            yield [*piece, view[:room]]
            view, piece, room = view[room:], [], PIECE_BYTES
        if len(view):
            piece.append(view)
            room -= len(view)
    if piece:
        yield piece


def crc_of(buffers: Iterable[Buffer]) -> int:
    crc = 0
    for each in buffers:
        crc = zlib.crc32(each, crc)
    return crc


class FrameReader:
    """Bytes in, frames out, without owning a socket.

    >>> reader, raw = FrameReader(), control_frame(NOBODY, NOBODY, b"hi")
    >>> frames = []
    >>> while raw:
    ...     space = reader.space()
    ...     taken = min(len(space), len(raw))
    ...     space[:taken] = raw[:taken]; raw = raw[taken:]
    ...     frames += reader.advance(taken)
    >>> bytes(frames[0].content)
    b'hi'
    """

    def __init__(self, *, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self.body_bytes_max = body_bytes_max
        """0 before a peer is admitted: a stranger makes us hold one control message, no more."""
        self._raw_header = memoryview(bytearray(HEADER_BYTES))
        self._header: Header | None = None
        self._control = memoryview(b"")
        self._cut: tuple[Header, memoryview, memoryview] | None = None
        self._cut_filled = 0
        self._body = memoryview(b"")
        self._space = self._raw_header
        self._stage: Callable[[], list[Frame]] = self._on_header

    def space(self) -> memoryview:
        """Where the next bytes of the stream belong; never empty."""
        return self._space

    @property
    def is_between_frames(self) -> bool:
        """May the stream end here without anything being lost?"""
        return self._space is self._raw_header and self._cut is None

    def advance(self, received_bytes: int) -> list[Frame]:
        """`received_bytes` were put into `space`. Returns the frame that they complete, if they do."""
        assert 0 <= received_bytes <= len(self._space)
        self._space = self._space[received_bytes:]
        done: list[Frame] = []
        while not len(self._space):
            done += self._stage()
        return done

    def _await(self, space: memoryview, stage: Callable[[], list[Frame]]) -> None:
        self._space, self._stage = space, stage

    def _on_header(self) -> list[Frame]:
        header = parse_header(self._raw_header)
        if header.body_bytes > self.body_bytes_max:
            raise WireError("oversize", f"a body of {header.body_bytes} bytes, at most {self.body_bytes_max}")
        self._header = header
        if header.kind is FrameKind.PIECE:
            self._await(self._room_for_piece(header.body_bytes), self._on_piece)
        else:
            self._control = memoryview(bytearray(header.control_bytes))
            self._await(self._control, self._on_control)
        return []

    def _room_for_piece(self, piece_bytes: int) -> memoryview:
        if self._cut is None:
            raise WireError("bad-frame", "a piece of no body")
        room = self._cut[2][self._cut_filled :]
        if piece_bytes > len(room):
            raise WireError("bad-frame", f"a piece of {piece_bytes} bytes where {len(room)} are missing")
        return room[:piece_bytes]

    def _on_piece(self) -> list[Frame]:
        assert self._header is not None and self._cut is not None
        self._cut_filled += self._header.body_bytes
        self._await(self._raw_header, self._on_header)
        header, control, body = self._cut
        if self._cut_filled < len(body):
            return []
        self._cut = None
        return [Frame(header, control, body)]

    def _on_control(self) -> list[Frame]:
        header = self._header
        assert header is not None
        if header.kind is FrameKind.DATA and self._cut is not None:
            raise WireError("bad-frame", "a second body before the first one ended")
        if header.flags & FLAG_CUT:
            self._cut = (header, self._control, memoryview(bytearray(header.body_bytes)))
            self._cut_filled = 0
            self._await(self._raw_header, self._on_header)
            return []
        self._body = memoryview(bytearray(header.body_bytes))
        self._await(self._body, self._on_body)
        return []

    def _on_body(self) -> list[Frame]:
        assert self._header is not None
        frame = Frame(self._header, self._control, self._body)
        self._control = self._body = memoryview(b"")
        self._await(self._raw_header, self._on_header)
        return [frame]
