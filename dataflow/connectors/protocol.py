"""What a connector is: ten lines are enough for one of your own.

    class Ticks:                                        # a source
        def read(self, schema):
            for n in range(3):
                yield [{"n": n}]                        # rows, a RecordBatch, Letters or Quiet

    class Collect:                                      # a sink
        def open(self, schema): self.rows = []
        def write(self, batch): self.rows += batch.to_pylist()
        def close(self): pass

`run(app, sources={"ticks": Ticks()}, sinks={"out": Collect()})` takes them as they are. A source runs in a
thread of its own and may block; it is read no faster than the app works.

A source may have more, if it can do more:

    read_after(schema, units)   it would give the same again: begin behind so many rows and letters (see replaying.py)
    acknowledges = True         when it is asked for more, it tells its senders that what it gave is safe; so whoever
                                keeps a log syncs it before that
    answer_when_taken()         called before `read` by one who does so: senders are answered only then
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from dataflow.batches import Row
from dataflow.dead_letters import Letter


@dataclass(frozen=True, slots=True)
class Letters:
    """Rows that could not be read: (source, file, line, reason, raw)."""

    letters: list[Letter]


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing to read for a while; others need not wait for this source."""


Read: TypeAlias = Any | list[Row] | Letters | Quiet  # Any: a pa.RecordBatch


class SourceConnector(Protocol):
    def read(self, schema: pa.Schema) -> Iterator[Read]:
        """Batches (or lists of rows) of the declared schema, until there are no more."""


class SinkConnector(Protocol):
    def open(self, schema: pa.Schema) -> None:
        """Called once, before the first batch."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take one batch."""

    def close(self) -> None:
        """Called once, after the last batch."""
