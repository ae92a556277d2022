"""What waits in front of an instance on one of its channels: from one copy of one writer.

Bounded by the edge's window (credit.py): whoever writes looks, or is told, how much waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from dataflow.engine.merging import BATCH_ROWS_MAX
from dataflow.hosting.edge_frames import EdgeKind
from dataflow.hosting.stamps import NO_STAMP
from dataflow.messages import Data, End, Idle, Message, Token, Watermark

_KINDS = {
    Data: EdgeKind.DATA,
    Watermark: EdgeKind.WATERMARK,
    Token: EdgeKind.TOKEN,
    Idle: EdgeKind.IDLE,
    End: EdgeKind.END,
}


@dataclass(frozen=True, slots=True)
class Item:
    """A message that is next in order. `open` decodes it, and may raise `WireError`."""

    kind: EdgeKind
    rows: int
    size_bytes: int
    open: Callable[[], list[Message]]
    has_mark: bool = False  # rows with a watermark behind them
    port: int | None = None  # what a connector set aside goes out of this port of its source, as it is
    stamp: int = NO_STAMP  # when it came in


def item_of(message: Message, *, port: int | None = None, stamp: int = NO_STAMP) -> Item:
    """A message that never was bytes: edges within one process skip the wire."""
    rows, size = (message.batch.num_rows, message.batch.nbytes) if isinstance(message, Data) else (0, 0)
    return Item(_KINDS[type(message)], rows, size, lambda: [message], port=port, stamp=stamp)


class Channel:
    def __init__(self) -> None:
        self._items: deque[tuple[int, Item]] = deque()
        self.rows = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, arrival: int) -> None:
        """`arrival` orders what waits on all channels of a share."""
        self._items.append((arrival, item))
        self.rows += item.rows
        self.size_bytes += item.size_bytes

    def head(self) -> tuple[int, EdgeKind]:
        """When the first one came, and what it is."""
        arrival, item = self._items[0]
        return arrival, item.kind

    def take(self, rows_max: int = BATCH_ROWS_MAX) -> list[Item]:
        """The first message; if it is rows, with the rows right behind it that fit into one batch."""
        taken = [self._pop()]
        rows = taken[0].rows
        while self._items and self._goes_with(taken[-1], rows, rows_max):
            taken.append(self._pop())
            rows += taken[-1].rows
        return taken

    def _goes_with(self, before: Item, rows: int, rows_max: int) -> bool:
        following = self._items[0][1]
        if before.kind is not EdgeKind.DATA or before.has_mark or before.port is not None:
            return False
        return following.kind is EdgeKind.DATA and following.port is None and rows + following.rows <= rows_max

    def _pop(self) -> Item:
        _, item = self._items.popleft()
        self.rows -= item.rows
        self.size_bytes -= item.size_bytes
        return item
