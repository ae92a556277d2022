"""One edge as its writer sees it: seqs are given, credit is spent, what is not acknowledged is kept.

A message that finds no credit waits here. Its instance is not run again before it has gone, so no more than the
output of one step waits. Of two watermarks that wait one behind the other only the later goes.

Promises: frames leave in the order of their seqs; `resend` repeats exactly what the reader may lack; what is kept is
bounded by the reader's window.
Rejected: resending by a timer (the transport is reliable while a connection lives; when it breaks, `resend` is called).
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from dataflow.hosting.credit import Allowance
from dataflow.hosting.edge_frames import EdgeHeader, EdgeKind, Parcel, schema_parcel
from overlay.frames import Buffer
from overlay.wire import WireError

Sending = tuple[bytes, tuple[Buffer, ...]]


class Outbound:
    def __init__(self, app: bytes, generation: int, edge: int) -> None:
        self._app = app
        self._generation = generation
        self._edge = edge
        self._allowance = Allowance()
        self._acknowledged = 0
        self._kept: deque[tuple[int, Parcel]] = deque()
        self._waiting: deque[Parcel] = deque()
        self._schema: pa.Schema | None = None

    @property
    def kept_bytes(self) -> int:
        """What memory this edge takes: sent and not acknowledged, or waiting for credit."""
        return sum(parcel.body_bytes for _, parcel in self._kept) + self.waiting_bytes

    @property
    def waiting_bytes(self) -> int:
        return sum(parcel.body_bytes for parcel in self._waiting)

    @property
    def under_way_messages(self) -> int:
        return self._allowance.under_way_messages

    @property
    def waiting_messages(self) -> int:
        return len(self._waiting)

    @property
    def sent_messages(self) -> int:
        return self._allowance.sent_messages

    def state(self) -> dict[str, int]:
        """For whoever watches: what is under way, and how much more may be."""
        return {
            "under_way_messages": self._allowance.under_way_messages,
            "under_way_bytes": self._allowance.under_way_bytes,
            "credit_messages": self._allowance.credit_messages,
            "credit_bytes": self._allowance.credit_bytes,
        }

    def has_room(self, *, for_token: bool = False) -> bool:
        """May the writer work on one more message (or on a token, for which there is always one more place)?"""
        return not self._waiting and self._allowance.may_send(0, is_token=for_token)

    def offer(self, parcel: Parcel, schema: pa.Schema | None = None) -> list[Sending]:
        """Send it, or let it wait. Rows come with their schema, which goes in front when it is news."""
        if schema is not None and schema is not self._schema:
            if self._schema is None or not schema.equals(self._schema):
                self._waiting.append(schema_parcel(schema))
            self._schema = schema
        if parcel.kind is EdgeKind.WATERMARK and self._waiting and self._waiting[-1].kind is EdgeKind.WATERMARK:
            self._waiting.pop()
        self._waiting.append(parcel)
        return self._flush()

    def on_credit(self, header: EdgeHeader) -> list[Sending]:
        """The reader has acknowledged and worked; what waited may go."""
        sent = self._allowance.sent_messages
        known = self._allowance.on_credit(
            messages=header.a, size_bytes=header.b, window_messages=header.c, window_bytes=header.rows << 10
        )
        if header.seq > sent or not known:
            raise WireError("bad-credit", f"edge {self._edge}: credit for what was never sent")
        self._acknowledged = max(self._acknowledged, header.seq)
        while self._kept and self._kept[0][0] <= self._acknowledged:
            self._kept.popleft()
        return self._flush()

    def ask(self) -> Sending:
        """Ask the reader where it stands: at the start, and when a connection was lost."""
        sent = self._allowance.sent_messages
        return EdgeHeader(self._app, self._generation, self._edge, sent, EdgeKind.ASK).pack(), ()

    def resend(self) -> list[Sending]:
        """All that the reader may lack, after a connection was lost."""
        return [self._frame(seq, parcel) for seq, parcel in self._kept]

    def _flush(self) -> list[Sending]:
        out: list[Sending] = []
        while self._waiting:
            parcel = self._waiting[0]
            if not self._allowance.may_send(parcel.body_bytes, is_token=parcel.kind is EdgeKind.TOKEN):
                break
            self._waiting.popleft()
            self._allowance.on_sent(parcel.body_bytes)
            seq = self._allowance.sent_messages
            self._kept.append((seq, parcel))
            out.append(self._frame(seq, parcel))
        return out

    def _frame(self, seq: int, parcel: Parcel) -> Sending:
        return parcel.header(self._app, self._generation, self._edge, seq), parcel.body
