"""An Arrow function of each batch: your own vectorised step.

    >>> import pyarrow.compute as pc
    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> loud = app.source("in", schema={"w": "string"}).map_batches(lambda b: {"w": pc.utf8_upper(b.column("w"))})
    >>> loud.sink("out")
    >>> run_rows(app, {"in": [{"w": "hey"}]})["out"]
    [{'w': 'HEY'}]

It gives a RecordBatch, a Table or a dict of columns; the declared schema is enforced. It must not depend on
where batches are cut. An error in it stops the app: a batch has no single bad row to set aside.

Rows behind the watermark: it is called for each stretch that begins with such a row, since nobody can say which row
became which; the results travel on as one batch, so that only this function is called more often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from dataflow.batches import concat, whole
from dataflow.behind import Behind
from dataflow.errors import AppError, OutOfMemoryError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import TIME_MIN_US
from dataflow.operators.base import Stateless
from dataflow.schema import SchemaLike, parse_schema, schema_text


class MapBatches(Stateless):
    carries_behind = True

    def __init__(self, function: Callable[[pa.RecordBatch], Any], flow: Flow, place: Place) -> None:
        self._function = function
        self._schema = flow.schema
        self._time = flow.time
        self._place = place

    def apply_behind(self, batch: pa.RecordBatch, behind: Behind) -> tuple[pa.RecordBatch, Behind | None]:
        cuts = behind.cuts()
        starts = [0, *(row for row, _ in cuts)]
        ends = [*starts[1:], batch.num_rows]
        parts = [self.apply(batch.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)]
        made = concat(parts, self._schema)
        if self._time is None:
            return made, None
        watermarks_us = np.repeat(
            np.array([TIME_MIN_US, *(watermark_us for _, watermark_us in cuts)], np.int64),
            [part.num_rows for part in parts],
        )
        rows = np.flatnonzero(self._time.of(made) < self._time.ceils_units(watermarks_us))
        return made, Behind(rows, watermarks_us[rows]) if rows.size else None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            made = self._function(batch)
            columns = made if isinstance(made, dict) else {name: made.column(name) for name in made.schema.names}
            arrays = [whole(_array(columns[field.name])).cast(field.type) for field in self._schema]
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        except MemoryError as error:
            raise OutOfMemoryError("map_batches", place=self._place) from error
        except Exception as error:
            wanted = schema_text(self._schema)
            raise AppError(
                f"map_batches: {type(error).__name__}: {error} (expected columns: {wanted})",
                place=self._place,
            ) from error


def _array(column: Any) -> Any:
    return column if isinstance(column, (pa.Array, pa.ChunkedArray)) else pa.array(column)


def draft(flow: Flow, function: Callable[[pa.RecordBatch], Any], schema: SchemaLike | None, place: Place) -> Draft:
    if not callable(function):
        raise AppError(f"map_batches: {function!r} is not a function", place=place)
    try:
        columns = flow.schema if schema is None else parse_schema(schema)
    except AppError as error:
        raise AppError(f"map_batches: {error.message}", place=place) from error
    out = flow.with_schema(columns)
    return Draft(
        "map_batches",
        (out,),
        lambda: MapBatches(function, out, place),
        detail=getattr(function, "__name__", repr(function)),
        fusable=True,
    )
