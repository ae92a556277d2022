"""One step of one instance: what it took from a channel, worked on, and made ready for its edges.

A task is picked and finished by the share, quickly; `run` does all that costs time (opening rows, the operator,
splitting by key, encoding) and touches nothing but its own instance. So a share can be stepped by several threads:
`begin` and `finish` under a lock, `run` outside it, one task at a time for an instance.

A *light* task is over so soon that it need not leave the thread that picked it.

Whatever goes wrong in `run` is kept in `error`: the share says it in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa

from dataflow.engine.executor import last_token
from dataflow.engine.instance import Instance
from dataflow.engine.merging import together
from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.channel import Item, item_of
from dataflow.hosting.edge_frames import Parcel, parcel_of
from dataflow.hosting.partition import pieces
from dataflow.hosting.spreading import Spreading
from dataflow.hosting.stamps import oldest
from dataflow.messages import Data, Message, Watermark
from dataflow.operators.base import Output

OnEpoch = Callable[[InstanceId, Instance, int], Any]
"""(id, instance, epoch): called on the thread of the step, before anything behind the token is read. What it returns is
handed to whoever hosts the share. The epoch `FINAL` is the end of all input."""
FINAL = 1 << 62
Delivery = tuple[int, Item] | tuple[int, Parcel, pa.Schema | None]
"""(edge, item) within this process; (edge, parcel, schema of its rows) over the wire."""


class Task:
    def __init__(
        self,
        id_: InstanceId,
        instance: Instance,
        channel: int,
        items: list[Item],
        is_light: bool,
        spreading: Spreading,
        remote: Collection[int],
        piece_bytes_max: int,
        on_epoch: OnEpoch | None,
    ) -> None:
        self.id = id_
        self.channel = channel
        self.items = items
        self.is_light = is_light
        self.stamp = oldest(item.stamp for item in items)
        self.outputs: list[Output] = []
        self.snapshots: list[tuple[int, Any]] = []
        self.deliveries: list[Delivery] = []
        self.error: Exception | None = None
        self._instance = instance
        self._spreading = spreading
        self._remote = remote
        self._piece_bytes_max = piece_bytes_max
        self._on_epoch = on_epoch

    def is_of(self, instance: Instance) -> bool:
        return self._instance is instance

    def run(self) -> None:
        try:
            had_ended = self._instance.ended
            self.outputs = self._outputs()
            if self._on_epoch and self._instance.ended and not had_ended:
                self.snapshots.append((FINAL, self._on_epoch(self.id, self._instance, FINAL)))
            self.deliveries = list(self._encoded(self._spreading.spread(self.outputs)))
        except Exception as error:
            self.error = error

    def _outputs(self) -> list[Output]:
        if self.items[0].port is not None:
            return [(self.items[0].port, message) for message in self.items[0].open()]
        out: list[Output] = []
        for message in _merged(self.items):
            out += self._feed(message)
        return out

    def _feed(self, message: Message) -> Iterator[Output]:
        outputs = self._instance.feed(self.channel, message)
        while outputs:
            yield from outputs
            token = last_token(outputs)
            if token is None:
                return
            if self._on_epoch:
                self.snapshots.append((token.epoch, self._on_epoch(self.id, self._instance, token.epoch)))
            outputs = self._instance.release()

    def _encoded(self, spread: Iterable[tuple[int, Message]]) -> Iterator[Delivery]:
        """Rows for the wire take along the watermark behind them; so each edge is one message late."""
        last: dict[int, Data] = {}
        for edge, message in spread:
            if edge not in self._remote:
                yield edge, item_of(message, stamp=self.stamp)
                continue
            rows = last.pop(edge, None)
            if rows is not None:
                taken_along = message.time_us if isinstance(message, Watermark) else None
                yield edge, parcel_of(rows, watermark_us=taken_along, stamp=self.stamp), rows.batch.schema
                if taken_along is not None:
                    continue
            if isinstance(message, Data):
                *earlier, last[edge] = pieces(message, self._piece_bytes_max)
                yield from ((edge, parcel_of(each, stamp=self.stamp), each.batch.schema) for each in earlier)
            else:
                yield edge, parcel_of(message, stamp=self.stamp), None
        for edge, rows in last.items():
            yield edge, parcel_of(rows, stamp=self.stamp), rows.batch.schema


def _merged(items: list[Item]) -> Iterator[Message]:
    """What the items bring; only the last of several can bring more than rows."""
    if len(items) == 1:
        yield from items[0].open()
        return
    opened: list[Any] = [message for item in items for message in item.open()]
    yield together([it for it in opened if isinstance(it, Data)])
    yield from (it for it in opened if not isinstance(it, Data))
