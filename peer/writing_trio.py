"""Sinks of the apps here that a device binds to something: a file, a topic, a hook.

A connector is a reader of the finished stream like any other, one that never goes away: it is given only rows that
stand, in their order, and while it is behind the sink takes no more, so a slow one slows the app and loses nothing.
After the death of a sink's peer the next one goes on with what is committed later: what the dead one had written
or not is not known there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from dataflow.connectors.protocol import SinkConnector
from dataflow.generations.effects import WriteSink
from dataflow.hosting.kept_rows import KeptRows, Reading

if TYPE_CHECKING:
    from peer.apps_trio import AppShell

READER: Final = "~connector"
"""The name under which a connector reads: no person's reader begins like this."""


@dataclass(slots=True)
class _Writing:
    connector: SinkConnector
    position: int
    news: trio.Event = field(default_factory=trio.Event)
    is_over: bool = False


class Writers:
    def __init__(self, shell: AppShell, sink: Callable[[str], SinkConnector | None]) -> None:
        self._shell = shell
        self._sink = sink
        self._writing: dict[tuple[str, str], _Writing | None] = {}

    def write(self, it: WriteSink) -> None:
        """Rows were shown, or the app is over."""
        place = (it.app, it.sink)
        if place not in self._writing:
            connector = self._sink(it.sink)
            kept = self._kept(place)
            self._writing[place] = None
            if connector is not None and kept is not None:
                first = kept.rows - sum(batch.num_rows for batch in it.batches)
                kept.attach(READER, first, math.inf)
                writing = self._writing[place] = _Writing(connector, first)
                self._shell.start_soon(self._work, place, writing)
        known = self._writing[place]
        if it.is_last:
            del self._writing[place]
        if known is not None:
            known.is_over = known.is_over or it.is_last
            known.news.set()

    def _kept(self, place: tuple[str, str]) -> KeptRows | None:
        tenancy = self._shell.node.tenancies.get(place[0])
        stream = tenancy.streams.get(place[1]) if tenancy is not None else None
        return stream.kept if stream is not None else None

    async def _work(self, place: tuple[str, str], writing: _Writing) -> None:
        tenancy = self._shell.node.tenancies[place[0]]
        schema = tenancy.streams[place[1]].schema
        connector = writing.connector
        try:
            await trio.to_thread.run_sync(connector.open, schema)
            while True:
                writing.news = trio.Event()
                reading = self._read(place, writing)
                if reading is None or not reading.batches:
                    if writing.is_over or reading is None:
                        break
                    await writing.news.wait()
                    continue
                for batch in reading.batches:
                    await trio.to_thread.run_sync(connector.write, batch)
                writing.position = reading.next
                self._read(place, writing)  # tells how far we are: what was full may go on
                self._shell.carry(tenancy.take_arrivals(trio.current_time()))
            await trio.to_thread.run_sync(connector.close)
        except Exception as error:
            sentence = f'sink "{place[1]}" failed: {type(error).__name__}: {error}'
            self._shell.carry(self._shell.node.fail(place[0], sentence, trio.current_time()))

    def _read(self, place: tuple[str, str], writing: _Writing) -> Reading | None:
        kept = self._kept(place)
        if kept is None:
            return None
        kept.attach(READER, writing.position, math.inf)
        return kept.read(READER, writing.position, math.inf)
