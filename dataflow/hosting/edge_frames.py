"""What travels on an edge between two peers, as bytes: a fixed header, and Arrow rows behind it.

    | app 16 | generation 8 | edge 4 | seq 8 | kind 1 | flags 1 | rows 4 | behind 4 | a 8 | b 8 | c 4 | crc32 of it 4 |
    | body of DATA: an Arrow IPC record batch without its schema, then rows behind and their watermarks (int64)     |
    | body of SCHEMA: one Arrow IPC schema; it goes once in front of the first rows of an edge                      |

`edge` is the position in `Assignment.edges(plan)`, which every host of a generation computes alike. A DATA frame may
carry the watermark that follows its rows: most batches are followed by one, and half of the frames go. What takes
a seq is listed in `SEQUENCED`; CREDIT, ASK and STALE speak about an edge and take none.

The transport sums bodies, not headers, and relays repeat both: so the header carries a sum of its own.

Promises: whatever is wrong with the bytes is a `WireError`; rows are checked as far as a reader may touch them,
and the size of what is built is bounded by the bytes that came.
Rejected: msgpack headers (slower, and this one never grows a field by accident); the schema in every frame (more
bytes than a hundred rows); no schema, since both ends have the app (rows under a wrong schema raise nothing).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from struct import Struct
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from dataflow.behind import Behind
from dataflow.hosting.stamps import NO_STAMP
from dataflow.messages import TIME_MAX_US, TIME_MIN_US, Data, End, Idle, Message, Token, Watermark
from overlay.frames import BODY_BYTES_MAX, Buffer
from overlay.wire import WireError

APP_TAG_BYTES: Final = 16
EDGES_MAX: Final = 1 << 32
FLAG_WATERMARK: Final = 1
"""DATA: `a` is the watermark that follows the rows."""

_HEADER = Struct(">16sQIQBBIIqqI")
_CRC = Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
_INT64 = np.dtype("<i8")


class EdgeKind(IntEnum):
    DATA = 1
    SCHEMA = 2
    WATERMARK = 3
    TOKEN = 4
    IDLE = 5
    END = 6
    CREDIT = 7
    ASK = 8
    STALE = 9


SEQUENCED: Final = frozenset(EdgeKind) - {EdgeKind.CREDIT, EdgeKind.ASK, EdgeKind.STALE}


@dataclass(frozen=True, slots=True)
class EdgeHeader:
    """The fields of every frame. What `a`, `b`, `c` are depends on the kind; nothing is zero.

    DATA: a = watermark behind the rows (with FLAG_WATERMARK), c = when they came in (stamps.py).
    WATERMARK: a = time_us, c = as for DATA. TOKEN: a = epoch.
    CREDIT: seq = acknowledged, a = messages and b = bytes worked on, c = window in messages, rows = window in KiB.
    ASK: seq = the last that was sent. STALE: a = the generation that its sender is in.
    """

    app: bytes
    generation: int
    edge: int
    seq: int
    kind: EdgeKind
    flags: int = 0
    rows: int = 0
    behind: int = 0
    a: int = 0
    b: int = 0
    c: int = 0

    def pack(self) -> bytes:
        raw = _HEADER.pack(
            self.app,
            self.generation,
            self.edge,
            self.seq,
            self.kind,
            self.flags,
            self.rows,
            self.behind,
            self.a,
            self.b,
            self.c,
        )
        return raw + _CRC.pack(crc32(raw))


def app_tag(app: str) -> bytes:
    """The 16 bytes by which frames name an app."""
    return blake2b(app.encode(), digest_size=APP_TAG_BYTES, person=b"shoal-app").digest()


def parse_header(raw: Buffer) -> EdgeHeader:
    """The header, if every field is one that somebody could have meant; else `WireError`."""
    if len(raw) != HEADER_BYTES:
        raise WireError("bad-edge-frame", f"an edge header of {len(raw)} bytes, not {HEADER_BYTES}")
    view = memoryview(raw)
    if crc32(view[: _HEADER.size]) != _CRC.unpack(view[_HEADER.size :])[0]:
        raise WireError("bad-crc", "an edge header was damaged on its way")
    app, generation, edge, seq, kind_byte, flags, rows, behind, a, b, c = _HEADER.unpack(view[: _HEADER.size])
    try:
        kind = EdgeKind(kind_byte)
    except ValueError:
        raise WireError("unknown-edge-frame", f"kind {kind_byte}") from None
    header = EdgeHeader(app, generation, edge, seq, kind, flags, rows, behind, a, b, c)
    _check_fields(header)
    return header


def _check_fields(it: EdgeHeader) -> None:
    if not _MAY_HAVE.get(it.kind, _has_nothing)(it):
        raise WireError("bad-edge-frame", f"a {it.kind.name} with fields that it cannot have")
    if it.kind in SEQUENCED and not it.seq:
        raise WireError("bad-edge-frame", f"a {it.kind.name} without a seq")


def _is_time(time_us: int) -> bool:
    return TIME_MIN_US <= time_us <= TIME_MAX_US


def _is_flagged_time(it: EdgeHeader) -> bool:
    return _is_time(it.a) if it.flags == FLAG_WATERMARK else it.flags == 0 and it.a == 0


def _has_nothing(it: EdgeHeader) -> bool:
    return not it.a and _has_only_a(it)


def _has_only_a(it: EdgeHeader) -> bool:
    return not (it.flags or it.rows or it.behind or it.b or it.c)


_MAY_HAVE: Final[dict[EdgeKind, Callable[[EdgeHeader], bool]]] = {
    EdgeKind.DATA: lambda it: it.rows > 0 and it.behind <= it.rows and not it.b and _is_flagged_time(it),
    EdgeKind.WATERMARK: lambda it: _is_time(it.a) and not (it.flags or it.rows or it.behind or it.b),
    EdgeKind.TOKEN: lambda it: it.a >= 0 and _has_only_a(it),
    EdgeKind.STALE: lambda it: it.a >= 0 and not it.seq and _has_only_a(it),
    EdgeKind.CREDIT: lambda it: (
        0 <= it.a <= it.seq and it.b >= 0 and it.c > 1 and it.rows > 0 and not (it.flags or it.behind)
    ),
}


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one sequenced frame says, before it has a seq: made by the thread that computed it."""

    kind: EdgeKind
    flags: int = 0
    rows: int = 0
    behind: int = 0
    a: int = 0
    body: tuple[Buffer, ...] = ()
    body_bytes: int = 0
    stamp: int = NO_STAMP

    def header(self, app: bytes, generation: int, edge: int, seq: int) -> bytes:
        it = EdgeHeader(
            app, generation, edge, seq, self.kind, self.flags, self.rows, self.behind, self.a, c=self.stamp
        )
        return it.pack()


def parcel_of(message: Message, *, watermark_us: int | None = None, stamp: int = NO_STAMP) -> Parcel:
    """The frame of a message; rows may take along the watermark behind them."""
    if isinstance(message, Data):
        return _rows_parcel(message, watermark_us, stamp)
    assert watermark_us is None
    if isinstance(message, Watermark):
        return Parcel(EdgeKind.WATERMARK, a=message.time_us, stamp=stamp)
    if isinstance(message, Token):
        return Parcel(EdgeKind.TOKEN, a=message.epoch)
    return Parcel(EdgeKind.IDLE if isinstance(message, Idle) else EdgeKind.END)


def _rows_parcel(data: Data, watermark_us: int | None, stamp: int) -> Parcel:
    batch = data.batch.serialize()
    body: tuple[Buffer, ...] = (memoryview(batch),)
    count = 0
    if data.behind is not None:
        marks = (data.behind.rows, data.behind.watermarks_us)
        body += tuple(each.astype(_INT64).tobytes() for each in marks)
        count = len(data.behind.rows)
    flags = 0 if watermark_us is None else FLAG_WATERMARK
    size = batch.size + 2 * _INT64.itemsize * count
    if size > BODY_BYTES_MAX:
        limit = f"at most {BODY_BYTES_MAX}; make the rows smaller"
        raise WireError("oversize", f"a batch of {data.batch.num_rows} rows takes {size} bytes on an edge, {limit}")
    return Parcel(EdgeKind.DATA, flags, data.batch.num_rows, count, watermark_us or 0, body, size, stamp)


def schema_parcel(schema: pa.Schema) -> Parcel:
    raw = schema.serialize()
    return Parcel(EdgeKind.SCHEMA, body=(memoryview(raw),), body_bytes=raw.size)


def read_schema(body: Buffer, expected: pa.Schema, edge: int) -> pa.Schema:
    """The sender's schema; it must be the one that our own copy of the app has for this edge."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(body))
    except (pa.ArrowException, ValueError, OSError, EOFError) as error:
        raise WireError("bad-schema", f"edge {edge}: {error}") from None
    if not schema.equals(expected):
        detail = f"edge {edge} carries ({_columns(schema)}), but the app says ({_columns(expected)})"
        raise WireError("other-schema", f"{detail}; launch the same app on every peer")
    return schema


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)[:400]


def read_messages(header: EdgeHeader, body: Buffer, schema: pa.Schema | None) -> list[Message]:
    """What a sequenced frame (other than SCHEMA) brings. The body stays where it is: rows point into it."""
    kind = header.kind
    if kind is EdgeKind.DATA:
        data = _read_rows(header, body, schema)
        return [data, Watermark(header.a)] if header.flags & FLAG_WATERMARK else [data]
    if len(body):
        raise WireError("bad-edge-frame", f"a {kind.name} with a body of {len(body)} bytes")
    return [_MARKS[kind](header.a)]


_MARKS: Final[dict[EdgeKind, Any]] = {
    EdgeKind.WATERMARK: Watermark,
    EdgeKind.TOKEN: Token,
    EdgeKind.IDLE: lambda _: Idle(),
    EdgeKind.END: lambda _: End(),
}


def _read_rows(header: EdgeHeader, body: Buffer, schema: pa.Schema | None) -> Data:
    if schema is None:
        raise WireError("no-schema", f"rows on edge {header.edge} before its schema")
    marks_bytes = 2 * _INT64.itemsize * header.behind
    if marks_bytes >= len(body):
        raise WireError("bad-edge-frame", f"{len(body)} bytes hold no {header.behind} rows behind")
    view = memoryview(body).cast("B")
    end = len(view) - marks_bytes
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(view[:end]), schema)
        batch.validate(full=True)  # a reader follows offsets blindly
    except (pa.ArrowException, ValueError, OSError, EOFError) as error:
        raise WireError("bad-rows", f"edge {header.edge}: {str(error)[:200]}") from None
    if batch.num_rows != header.rows:
        raise WireError("bad-rows", f"edge {header.edge}: {batch.num_rows} rows where {header.rows} were announced")
    return Data(batch, _read_behind(header, view[end:]) if header.behind else None)


def _read_behind(header: EdgeHeader, marks: memoryview) -> Behind:
    numbers = np.frombuffer(marks, _INT64).astype(np.int64)
    rows, watermarks = numbers[: header.behind], numbers[header.behind :]
    ascending = bool((np.diff(rows) > 0).all()) and rows[0] >= 0 and rows[-1] < header.rows
    rising = bool((np.diff(watermarks) >= 0).all()) and _is_time(int(watermarks[0])) and _is_time(int(watermarks[-1]))
    if not (ascending and rising):
        raise WireError("bad-rows", f"edge {header.edge}: rows behind the watermark that no source could have marked")
    return Behind(rows, watermarks)
