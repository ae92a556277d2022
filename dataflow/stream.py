"""Streams as the user sees them: each method adds one operator and gives the stream behind it.

Thin on purpose: what an operator does, checks and promises is in its own file under operators/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow.aggregates import AggregatePlan
from dataflow.durations import Duration, duration_us
from dataflow.errors import AppError, Place, place_of_caller
from dataflow.expressions import Expr
from dataflow.graph import Draft, Edge, Flow, Node
from dataflow.operators import (
    count_aggregate,
    distinct,
    enrich,
    filter,
    flat_map,
    interval_join,
    map_batches,
    process,
    select,
    session_aggregate,
    sink,
    split,
    top_k,
    union,
    window_aggregate,
    window_join,
    with_columns,
)
from dataflow.operators import map as map_rows
from dataflow.schema import SchemaLike, require_columns
from dataflow.windows import CountWindow, SessionWindow, TimeWindow, Window

if TYPE_CHECKING:
    from dataflow.app import App


class Stream:
    """A named flow of batches: one output port of an operator."""

    def __init__(self, app: App, node: Node, port: int = 0) -> None:
        self.app = app
        self.node = node
        self.port = port

    @property
    def flow(self) -> Flow:
        return self.node.draft.outputs[self.port]

    @property
    def schema(self) -> pa.Schema:
        return self.flow.schema

    def filter(self, predicate: Expr) -> Stream:
        """Rows for which the expression is true."""
        place = place_of_caller()
        return self._then(filter.draft(self.flow, predicate, place), place)

    def select(self, *columns: str, **expressions: Any) -> Stream:
        """These columns and no others."""
        place = place_of_caller()
        return self._then(select.draft(self.flow, columns, expressions, place), place)

    def with_columns(self, **expressions: Any) -> Stream:
        """Columns added or replaced."""
        place = place_of_caller()
        return self._then(with_columns.draft(self.flow, expressions, place), place)

    def map(self, function: Callable[..., Any], *, schema: SchemaLike | None = None, parallelism: int = 1) -> Stream:
        """A Python function of a row (a dict) that gives a row; in worker processes if `parallelism` > 1."""
        place = place_of_caller()
        return self._then(map_rows.draft(self.flow, function, schema, parallelism, place), place)

    def flat_map(
        self, function: Callable[..., Any], *, schema: SchemaLike | None = None, parallelism: int = 1
    ) -> Stream:
        """A Python function of a row that gives any number of rows."""
        place = place_of_caller()
        return self._then(flat_map.draft(self.flow, function, schema, parallelism, place), place)

    def map_batches(self, function: Callable[[pa.RecordBatch], Any], *, schema: SchemaLike | None = None) -> Stream:
        """An Arrow function of a batch."""
        place = place_of_caller()
        return self._then(map_batches.draft(self.flow, function, schema, place), place)

    def union(self, *others: Stream) -> Stream:
        """Rows of all the streams."""
        place = place_of_caller()
        streams = (self, *others)
        return self._then(union.draft(tuple(stream.flow for stream in streams), place), place, *others)

    def split(self, predicate: Expr) -> tuple[Stream, Stream]:
        """The rows for which the expression is true, and the rest."""
        place = place_of_caller()
        matching = self._then(split.draft(self.flow, predicate, place), place)
        return matching, Stream(self.app, matching.node, 1)

    def enrich(self, table: Any, *, on: str | tuple[str, ...], how: str = "left") -> Stream:
        """Columns of a table (or of the latest rows of a stream) added by key."""
        place = place_of_caller()
        key = (on,) if isinstance(on, str) else tuple(on)
        if isinstance(table, Stream):
            return self._then(enrich.stream_draft(self.flow, table.flow, key, how, place), place, table)
        return self._then(enrich.table_draft(self.flow, table, key, how, place), place)

    def key_by(self, *columns: str) -> KeyedStream:
        """The same rows, with state by these columns from here on; no column is one global key."""
        place = place_of_caller()
        require_columns(self.schema, columns, operator="key_by", place=place)
        for name in columns:
            if pa.types.is_nested(self.schema.field(name).type):
                raise AppError(
                    f'key_by: column "{name}" is {self.schema.field(name).type}, not a plain value', place=place
                )
        return KeyedStream(self.app, self.node, self.port, columns)

    def window(self, window: Window, *, allowed_lateness: Duration = 0) -> WindowedStream:
        raise AppError("window: say first which rows belong together: .key_by(...)", place=place_of_caller())

    def process(self, *_: Any, **__: Any) -> Stream:
        raise AppError("process: keeps state, so it needs a key: .key_by(...)", place=place_of_caller())

    def distinct(self, *_: Any, **__: Any) -> Stream:
        raise AppError("distinct: keeps state, so it needs a key: .key_by(...)", place=place_of_caller())

    def join(self, *_: Any, **__: Any) -> Stream:
        raise AppError("join: keeps state, so it needs a key: .key_by(...)", place=place_of_caller())

    def late(self) -> Stream:
        """Rows that came after their windows had closed."""
        return self._side("late")

    def dead_letters(self) -> Stream:
        """Rows that could not be read or worked on."""
        return self._side("dead_letters")

    def sink(self, name: str) -> None:
        """The end of the stream, under a name."""
        place = place_of_caller()
        if not isinstance(name, str) or not name:
            raise AppError(f"sink: {name!r} is not a name", place=place)
        self.app.graph.add(name, sink.draft(self.flow), (Edge(self.node.id, self.port),), place)

    def _side(self, port: str) -> Stream:
        if port not in self.node.draft.ports:
            raise AppError(f"{self.node.kind} has no {port.replace('_', ' ')}", place=place_of_caller())
        return Stream(self.app, self.node, self.node.draft.ports.index(port))

    def _then(self, draft: Draft, place: Place, *others: Stream) -> Stream:
        streams = (self, *others)
        if any(stream.app is not self.app for stream in streams):
            raise AppError(f"{draft.kind}: the streams belong to different apps", place=place)
        inputs = tuple(Edge(stream.node.id, stream.port) for stream in streams)
        name = f"{draft.kind}{len(self.app.graph.nodes)}"
        return Stream(self.app, self.app.graph.add(name, draft, inputs, place))


class KeyedStream(Stream):
    """A stream whose next operator keeps state by key."""

    def __init__(self, app: App, node: Node, port: int, key: tuple[str, ...]) -> None:
        super().__init__(app, node, port)
        self.key = key

    def window(self, window: Window, *, allowed_lateness: Duration = 0) -> WindowedStream:
        """Rows by stretches of time or of rows."""
        place = place_of_caller()
        if not isinstance(window, (TimeWindow, SessionWindow, CountWindow)):
            raise AppError(f'window: {window!r} is not a window such as tumbling("10s")', place=place)
        try:
            allowed_us = duration_us(allowed_lateness, what="allowed lateness")
        except AppError as error:
            raise AppError(f"window: {error.message}", place=place) from error
        return WindowedStream(self, window, allowed_us)

    def process(self, function: Any, *, schema: SchemaLike) -> Stream:
        """A function or class of your own with keyed state and timers."""
        place = place_of_caller()
        return self._then(process.draft(self.flow, self.key, function, schema, place), place)

    def distinct(self, *, within: Duration | None = None) -> Stream:
        """The first row of each key (of each stretch of `within`)."""
        place = place_of_caller()
        return self._then(distinct.draft(self.flow, self.key, within, place), place)

    def join(
        self,
        other: Stream,
        *,
        window: TimeWindow | None = None,
        within: tuple[Duration, Duration] | None = None,
        how: str = "inner",
        suffix: str = "_right",
    ) -> Stream:
        """Pairs of rows with equal keys in one window, or at most so far apart in time."""
        place = place_of_caller()
        if not isinstance(other, KeyedStream):
            raise AppError("join: the other stream needs a key too: .key_by(...)", place=place)
        if (window is None) == (within is None):
            raise AppError("join: give either window= or within=", place=place)
        if window is not None:
            draft = window_join.draft(self.flow, other.flow, self.key, other.key, window, how, suffix, place)
        else:
            assert within is not None
            draft = interval_join.draft(self.flow, other.flow, self.key, other.key, within, how, suffix, place)
        return self._then(draft, place, other)


class WindowedStream:
    """Rows by key and window: say what to make of each."""

    def __init__(self, keyed: KeyedStream, window: Window, allowed_us: int) -> None:
        self._keyed = keyed
        self._window = window
        self._allowed_us = allowed_us

    def aggregate(self, **results: Expr) -> Stream:
        """One row a key and window, with these results."""
        place = place_of_caller()
        keyed, window = self._keyed, self._window
        plan = AggregatePlan(keyed.schema, results, operator="aggregate", place=place)
        if isinstance(window, TimeWindow):
            draft = window_aggregate.draft(keyed.flow, keyed.key, window, self._allowed_us, plan, place)
        elif isinstance(window, SessionWindow):
            draft = session_aggregate.draft(keyed.flow, keyed.key, window, self._allowed_us, plan, place)
        else:
            draft = count_aggregate.draft(keyed.flow, keyed.key, window, plan, place)
        return keyed._then(draft, place)

    def top_k(self, k: int, *, by: str, descending: bool = True) -> Stream:
        """The k rows of each key and window that rank first by a column."""
        place = place_of_caller()
        keyed, window = self._keyed, self._window
        if not isinstance(window, TimeWindow):
            raise AppError(f"top_k: needs a window of time, not {window}", place=place)
        draft = top_k.draft(keyed.flow, keyed.key, window, self._allowed_us, k, by, descending, place)
        return keyed._then(draft, place)
