"""One edge as its reader sees it: what may come in, in which order, and what to answer.

    seq = last + 1   taken, with whatever was held behind it
    seq <= last      dropped; acknowledged again, for the writer seems not to know
    seq > last + 1   held until the gap closes; bounded, because credit is

Who sent it and for which generation is checked before (share.py). The seq is that of DESIGN 4.1: tokens have one too,
so nothing that paths reorder can slip from one epoch into another.

Promises: every message is taken once, in order; at most a window of them is held. A frame that no honest writer could
have sent is a `WireError`, or `EdgeBroken` if it cannot be dropped either. Rows are not opened here, but by the
thread that works on them.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from dataflow.hosting.channel import Item
from dataflow.hosting.credit import Meter, Window
from dataflow.hosting.edge_frames import EdgeHeader, EdgeKind, read_messages, read_schema
from overlay.frames import Buffer
from overlay.wire import WireError


class EdgeBroken(WireError):  # noqa: N818 (it says what is, like Refused)
    """What came in order cannot be used, and so nothing behind it."""


class Inbound:
    def __init__(self, edge: int, schema: pa.Schema, window: Window) -> None:
        self.meter = Meter(window)
        self.last = 0
        self._edge = edge
        self._expected = schema
        self._schema: pa.Schema | None = None
        self._held: dict[int, tuple[EdgeHeader, Buffer]] = {}
        self._held_bytes = 0
        self.ended = False

    @property
    def held(self) -> int:
        return len(self._held)

    def accept(self, header: EdgeHeader, body: Buffer) -> list[Item] | None:
        """What can be worked on now; None if this was here before (acknowledge again)."""
        if header.seq <= self.last or header.seq in self._held:
            return None
        size = len(body)
        if not self.meter.within(header.seq, self._held_bytes + size):
            raise WireError("over-credit", f"edge {self._edge}: seq {header.seq} of {size} bytes is outside the window")
        self._held[header.seq] = (header, body)
        self._held_bytes += size
        taken: list[Item] = []
        while (following := self._held.pop(self.last + 1, None)) is not None:
            self._held_bytes -= len(following[1])
            self.last += 1
            taken += self._take(*following)
        return taken

    def _take(self, header: EdgeHeader, body: Buffer) -> list[Item]:
        size = len(body)
        self.meter.on_taken(size)
        if self.ended:
            raise EdgeBroken("after-end", f"edge {self._edge}: a {header.kind.name} behind the end")
        if header.kind is EdgeKind.SCHEMA:
            try:
                self._schema = read_schema(body, self._expected, self._edge)
            except WireError as error:
                raise EdgeBroken(error.reason, str(error).removeprefix(f"{error.reason}: ")) from None
            self.meter.on_worked(size)
            return []
        self.ended = header.kind is EdgeKind.END
        reading = partial(read_messages, header, body, self._schema)
        return [Item(header.kind, header.rows, size, reading, bool(header.flags), stamp=header.c)]

    def on_worked(self, size_bytes: int) -> bool:
        """One message has been worked on. True if the writer should be told."""
        self.meter.on_worked(size_bytes)
        return self.meter.is_due()

    def credit(self, app: bytes, generation: int) -> bytes:
        """A CREDIT frame that says all we know; may be repeated at will."""
        meter = self.meter
        meter.on_told()
        window = meter.window
        return EdgeHeader(
            app,
            generation,
            self._edge,
            self.last,
            EdgeKind.CREDIT,
            rows=window.kib,
            a=meter.worked_messages,
            b=meter.worked_bytes,
            c=window.messages,
        ).pack()
