"""Columns of a table added to each row by key; or of the latest row a stream had for that key.

    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> app = App("doc")
    >>> rows = app.source("in", schema={"sensor": "int64"})
    >>> rows.enrich({"sensor": [1, 2], "street": ["Quay", "Pier"]}, on="sensor").sink("out")
    >>> run_rows(app, {"in": [{"sensor": 2}, {"sensor": 9}]})["out"]
    [{'sensor': 2, 'street': 'Pier'}, {'sensor': 9, 'street': None}]

`how="left"` keeps rows without a match (with nulls), `how="inner"` drops them. A static table is stateless and
fused. A stream is read as changes. If both have event time, a row sees the latest change up to its own time (see
enrich_as_of.py). Otherwise there is nothing to go by but arrival: the latest row to arrive for a key counts, for rows
that arrive after it. That is meant for a slowly changing table without times, and depends on who came first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dataflow.batches import Bools, Ints, keep, whole
from dataflow.behind import Behind
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, Operator, Output, Stateless
from dataflow.operators.enrich_as_of import EnrichAsOf
from dataflow.schema import require_columns
from dataflow.state.columns import Column
from dataflow.state.keys import Keys
from dataflow.state.slots import grown
from dataflow.state.snapshot import Stateful, Tables, key_columns, keyed_table

ROWS, CHANGES = 0, 1


class Lookup:
    """The latest values of every key, as columns by slot."""

    def __init__(self, key: tuple[str, ...], schema: pa.Schema) -> None:
        self.key = key
        self.names = [name for name in schema.names if name not in key]
        self.keys = Keys(key, [schema.field(name).type for name in key])
        self.columns = [Column(schema.field(name).type) for name in self.names]
        self._arrays: list[pa.Array] | None = None  # the columns as Arrow, while nothing changes

    def put(self, keys: list[pa.Array], values: list[pa.Array], rows: int) -> Ints:
        slots, _ = self.keys.intern(keys, rows)
        for column, array in zip(self.columns, values, strict=True):
            column.grow(self.keys.capacity)
            column.put(slots, array)
        self._arrays = None
        return slots

    def extend(
        self, batch: pa.RecordBatch, behind: Behind | None, schema: pa.Schema, *, inner: bool
    ) -> tuple[pa.RecordBatch, Behind | None]:
        """The rows with their values, and where those behind the watermark are now."""
        slots = self.keys.find([batch.column(name) for name in self.key], batch.num_rows)
        missing = slots < 0
        if inner and missing.any():
            batch, slots = keep(batch, ~missing), slots[~missing]
            behind = behind.after_filter(~missing) if behind else None
            missing = slots < 0
        if self._arrays is None:
            # Keys are never released here, so the slots in use are the first ones.
            self._arrays = [column.arrow(np.arange(self.keys.live)) for column in self.columns]
        at = pa.array(slots, mask=missing) if missing.any() else pa.array(slots)
        arrays = [*batch.columns, *(array.take(at) for array in self._arrays)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema), behind


class EnrichTable(Stateless):
    carries_behind = True

    def __init__(self, lookup: Lookup, schema: pa.Schema, *, inner: bool) -> None:
        self._lookup = lookup
        self._schema = schema
        self._inner = inner

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._lookup.extend(batch, None, self._schema, inner=self._inner)[0]

    def apply_behind(self, batch: pa.RecordBatch, behind: Behind) -> tuple[pa.RecordBatch, Behind | None]:
        return self._lookup.extend(batch, behind, self._schema, inner=self._inner)


class EnrichStream(Stateful):
    carries_behind = True

    def __init__(self, key: tuple[str, ...], changes: pa.Schema, schema: pa.Schema, *, inner: bool) -> None:
        self._lookup = Lookup(key, changes)
        self._schema = schema
        self._inner = inner
        self._dirty: Bools = np.zeros(self._lookup.keys.capacity, np.bool_)

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        return self._extended(source, batch, None)

    def carry(self, source: int, batch: pa.RecordBatch, behind: Behind) -> list[Output]:
        return self._extended(source, batch, behind)

    def _extended(self, source: int, batch: pa.RecordBatch, behind: Behind | None) -> list[Output]:
        if source == CHANGES:
            self._put([batch.column(n) for n in self._lookup.key], [batch.column(n) for n in self._lookup.names])
            return []
        made, left = self._lookup.extend(batch, behind, self._schema, inner=self._inner)
        return [(MAIN, Data(made, left))] if made.num_rows else []

    def _put(self, keys: list[pa.Array], values: list[pa.Array]) -> None:
        slots = self._lookup.put(keys, values, len(keys[0]))
        if self._lookup.keys.capacity > len(self._dirty):
            self._dirty = grown(self._dirty, self._lookup.keys.capacity)
        self._dirty[slots] = True

    # -- state --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        slots = np.flatnonzero(self._dirty) if changed else self._lookup.keys.living()
        values = {f"value{at}": column.arrow(slots) for at, column in enumerate(self._lookup.columns)}
        return {"values": keyed_table(self._lookup.keys.columns(slots), values)}, {}

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._put(key_columns(rows), [rows.column(f"value{at}") for at in range(len(self._lookup.columns))])

    def clean(self) -> None:
        self._dirty[:] = False


def _as_table(table: Any, place: Place) -> pa.Table:
    try:
        if isinstance(table, pa.RecordBatch):
            return pa.Table.from_batches([table])
        return table if isinstance(table, pa.Table) else pa.table(dict(table))
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise AppError(
            f"enrich: {type(table).__name__} is not a table, a dict of columns or a stream", place=place
        ) from error


def _check(flow: Flow, other: pa.Schema, key: tuple[str, ...], how: str, place: Place) -> pa.Schema:
    if how not in ("left", "inner"):
        raise AppError(f'enrich: how={how!r} is neither "left" nor "inner"', place=place)
    if not key:
        raise AppError("enrich: name at least one column in on=", place=place)
    require_columns(flow.schema, key, operator="enrich", place=place)
    require_columns(other, key, operator="enrich (table)", place=place)
    for name in key:
        if flow.schema.field(name).type != other.field(name).type:
            one, two = flow.schema.field(name).type, other.field(name).type
            raise AppError(f'enrich: key "{name}" is {one} in the stream but {two} in the table', place=place)
    added = [field for field in other if field.name not in key]
    for field in added:
        if field.name in flow.schema.names:
            raise AppError(f'enrich: the stream already has a column "{field.name}"', place=place)
    return pa.schema([*flow.schema, *(field.with_nullable(True) for field in added)])


def table_draft(flow: Flow, table: Any, key: tuple[str, ...], how: str, place: Place) -> Draft:
    rows = _as_table(table, place)
    columns: Mapping[str, pa.Array] = {name: whole(rows.column(name)) for name in rows.schema.names}
    for name in set(key) & set(columns) & set(flow.schema.names):
        kind = flow.schema.field(name).type
        if columns[name].type != kind and pa.types.is_integer(kind) and pa.types.is_integer(columns[name].type):
            columns = {**columns, name: columns[name].cast(kind)}
    seen = pa.schema([(name, array.type) for name, array in columns.items()])
    schema = _check(flow, seen, key, how, place)
    lookup = Lookup(key, seen)
    lookup.put([columns[name] for name in key], [columns[name] for name in lookup.names], rows.num_rows)
    return Draft(
        "enrich",
        (flow.with_schema(schema),),
        lambda: EnrichTable(lookup, schema, inner=how == "inner"),
        detail=f"table of {rows.num_rows} rows on {', '.join(key)}",
        fusable=True,
    )


def stream_draft(flow: Flow, changes: Flow, key: tuple[str, ...], how: str, place: Place) -> Draft:
    if flow.time is None or changes.time is None:
        schema = _check(flow, changes.schema, key, how, place)
        return _stream_draft(
            (flow.with_schema(schema),),
            lambda: EnrichStream(key, changes.schema, schema, inner=how == "inner"),
            "arrival",
            key,
        )
    # Times of both sides often share a name; the row keeps its own.
    taken = changes.time.name in flow.schema.names and changes.time.name not in key
    seen = pa.schema([field for field in changes.schema if not (taken and field.name == changes.time.name)])
    as_of = _check(flow, seen, key, how, place)
    added = [name for name in seen.names if name not in key]
    return _stream_draft(
        (flow.with_schema(as_of), flow),
        lambda: EnrichAsOf(key, (flow, changes), added, as_of, inner=how == "inner"),
        "event time",
        key,
    )


def _stream_draft(flows: tuple[Flow, ...], make: Callable[[], Operator], by: str, key: tuple[str, ...]) -> Draft:
    return Draft(
        "enrich",
        flows,
        make,
        detail=f"stream on {', '.join(key)} by {by}",
        stateful=True,
        key=key,
        ports=("", "late")[: len(flows)],
    )
