"""A sink on a peer: rows are kept for readers, and written to the connector that the device binds to it, if any.

Taking waits while an attached reader is behind (`KeptRows.has_room`), and while the connector writes: both slow the app
through its credits, and neither loses a row.
"""

from __future__ import annotations

import pyarrow as pa
import trio

from dataflow.connectors.protocol import SinkConnector
from dataflow.hosting.kept_rows import KeptRows, Reading
from dataflow.messages import Data, End, Message

ROOM_CHECK_S = 0.5
"""How often a full sink looks whether a silent reader has expired."""


class KeptSink:
    def __init__(self, schema: pa.Schema, connector: SinkConnector | None = None) -> None:
        self.schema = schema
        self.kept = KeptRows()
        self._connector = connector
        self._is_open = False
        self._news = trio.Event()
        self._read = trio.Event()

    async def take(self, message: Message) -> None:
        if isinstance(message, End):
            await self.close()
        elif isinstance(message, Data):
            while not self.kept.has_room(trio.current_time()):
                self._read = trio.Event()
                with trio.move_on_after(ROOM_CHECK_S):
                    await self._read.wait()
            if self._connector is not None:
                await trio.to_thread.run_sync(self._write, message.batch)
            self.kept.append(message.batch)
        self._tell()

    async def close(self) -> None:
        """Nothing follows. May be called twice."""
        connector, self._connector = self._connector, None
        if connector is not None:
            if not self._is_open:
                await trio.to_thread.run_sync(connector.open, self.schema)
            await trio.to_thread.run_sync(connector.close)
        self.kept.end()
        self._tell()

    async def read(self, reader: str, position: int, *, wait_s: float) -> Reading:
        """Rows from a position on (-1: from now on); waits for some."""
        now = trio.current_time()
        if position < 0:
            position = self.kept.rows
        self.kept.attach(reader, position, now)
        with trio.move_on_after(wait_s):
            while self.kept.rows <= position and not self.kept.is_ended:
                self._news = self._news if not self._news.is_set() else trio.Event()
                await self._news.wait()
        reading = self.kept.read(reader, position, trio.current_time())
        if reading.is_ended:
            self.kept.detach(reader)
        self._read.set()
        return reading

    def _write(self, batch: pa.RecordBatch) -> None:
        assert self._connector is not None
        if not self._is_open:
            self._connector.open(self.schema)
            self._is_open = True
        self._connector.write(batch)

    def _tell(self) -> None:
        self._news.set()
