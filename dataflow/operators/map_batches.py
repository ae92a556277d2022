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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from dataflow.batches import whole
from dataflow.errors import AppError, OutOfMemoryError, Place
from dataflow.graph import Draft, Flow
from dataflow.operators.base import Stateless
from dataflow.schema import SchemaLike, parse_schema, schema_text


class MapBatches(Stateless):
    def __init__(self, function: Callable[[pa.RecordBatch], Any], schema: pa.Schema, place: Place) -> None:
        self._function = function
        self._schema = schema
        self._place = place

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
    return Draft(
        "map_batches",
        (flow.with_schema(columns),),
        lambda: MapBatches(function, columns, place),
        detail=getattr(function, "__name__", repr(function)),
        fusable=True,
    )
