"""Go on where an earlier run of the process had stopped reading.

A connector that would give the same again (a file, a generator) has `read_after(schema, units)`: the same as `read`,
without the first so many units, which are in the source's log already. A unit is a row or a letter. Connectors that
cannot give anything twice (MQTT, HTTP, lines) have no such method and simply go on.

It is the connector's word that it gives the same again. A file that was changed in between, other than at rows that
were not read yet, gives other rows; one that became shorter than what was read is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import pyarrow as pa

from dataflow.connectors.protocol import Letters, Read, SourceConnector
from dataflow.errors import AppError


def is_replayable(connector: SourceConnector) -> bool:
    return hasattr(connector, "read_after")


def read_after(connector: SourceConnector, schema: pa.Schema, units: int) -> Iterator[Read]:
    """What a connector has to say behind what an earlier process took from it."""
    if units and is_replayable(connector):
        return cast(Iterator[Read], connector.read_after(schema, units))  # type: ignore[attr-defined]
    return connector.read(schema)


def units_of(read: Read) -> int:
    """How many rows or letters there are; none in anything else."""
    if isinstance(read, Letters):
        return len(read.letters)
    if isinstance(read, list):
        return len(read)
    return int(read.num_rows) if isinstance(read, pa.RecordBatch) else 0


def continue_after(reads: Iterable[Read], units: int, *, what: str = "the source") -> Iterator[Read]:
    """The same without the first `units` rows and letters; a batch is cut where they end.

    >>> list(continue_after([[{"x": 1}], Letters([("in", "", 1, "bad", "?")]), [{"x": 2}, {"x": 3}]], 3))
    [[{'x': 3}]]
    """
    left = units
    for read in reads:
        count = units_of(read)
        if not left:
            yield read
        elif count > left:
            yield _without_first(read, left)
        left -= min(left, count)
    if left:
        raise AppError(f"{what} gave {units} rows before, and only {units - left} now; was it changed?")


def _without_first(read: Read, count: int) -> Read:
    if isinstance(read, Letters):
        return Letters(read.letters[count:])
    return read[count:] if isinstance(read, list) else cast(pa.RecordBatch, read).slice(count)
