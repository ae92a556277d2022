"""Your own keyed state: a function (or class) of a row, the state of its key, and event-time timers.

    >>> from dataflow import App
    >>> from dataflow.testing import run_rows
    >>> def numbered(row, state, timers):
    ...     state["n"] = state.get("n", 0) + 1
    ...     yield {"k": row["k"], "n": state["n"]}
    >>> app = App("doc")
    >>> rows = app.source("in", schema={"k": "string"})
    >>> rows.key_by("k").process(numbered, schema={"k": "string", "n": "int64"}).sink("out")
    >>> run_rows(app, {"in": [{"k": "a"}, {"k": "b"}, {"k": "a"}]})["out"]
    [{'k': 'a', 'n': 1}, {'k': 'b', 'n': 1}, {'k': 'a', 'n': 2}]

A class has `on_row(row, state, timers)` and may have `on_timer(key, at, state, timers)`; each instance of the
operator makes one object of it. State is a dict of msgpack-able values; an empty one is forgotten.
`timers.set(at)` asks for a call when event time reaches `at` (a datetime, or a number in the unit of the event
time); each time fires once. A row that raises is a dead letter, and the state stays as it was before it.

Promises: on a stream with event time, rows and timers are handled in order of time, timers first, whatever the
order and the batches they came in; so results are the same on every run. Rows therefore wait for the watermark,
and those that come behind it go to `.late()`. Without event time, rows are handled as they come.
Rejected: calling at once and firing timers at watermarks; what a function sees would depend on batch sizes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime
from typing import Any, cast

import msgpack
import numpy as np
import pyarrow as pa

from dataflow.batches import Row, from_rows, keep, take, to_rows
from dataflow.behind import Behind
from dataflow.dead_letters import DEAD_LETTER_SCHEMA, Letter, dead_letters
from dataflow.errors import AppError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import TIME_MIN_US, Data
from dataflow.operators.base import MAIN, SIDE, Output, Settled, set_aside
from dataflow.schema import SchemaLike, parse_schema, require_columns
from dataflow.state.row_buffer import RowBuffer
from dataflow.state.snapshot import Stateful, Tables, key_columns, keyed_table
from dataflow.times import TimeColumn

Key = tuple[Any, ...]
LATE = 2


class Timers:
    """What a function may ask for while it handles one key."""

    def __init__(self, time: TimeColumn | None) -> None:
        self._time = time
        self.asked: set[int] = set()
        self.cleared = False

    def set(self, at: datetime | int) -> None:
        """Call `on_timer` when the watermark reaches this time."""
        if self._time is None:
            raise ValueError("timers need a stream with event time")
        if isinstance(at, datetime):
            kind = self._time.kind if pa.types.is_timestamp(self._time.kind) else pa.timestamp("ms")
            self.asked.add(int(pa.scalar(at, kind).value))
        else:
            self.asked.add(int(at))

    def clear(self) -> None:
        """Forget all timers of this key, also those asked for so far in this call."""
        self.asked.clear()
        self.cleared = True


class Process(Stateful):
    ports = 3

    def __init__(self, key: tuple[str, ...], flow: Flow, function: Any, schema: pa.Schema) -> None:
        self._key = key
        self._types = [flow.schema.field(name).type for name in key]
        self._time = flow.time
        self._schema = schema
        self._user = function() if isinstance(function, type) else function
        self._on_row = getattr(self._user, "on_row", self._user)
        self._name = f"process {getattr(function, '__name__', 'function')}"
        self._state: dict[Key, bytes] = {}
        self._timers: dict[Key, set[int]] = {}
        self._due: list[tuple[int, int, Key]] = []  # heap of (time, number, key)
        self._number = 0
        self._dirty: set[Key] = set()
        self._waiting = RowBuffer(key, flow.schema)
        self._watermark = flow.time.ceil_units(TIME_MIN_US) if flow.time else 0

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        if self._time is None:
            made, letters = self._nothing()
            for row in to_rows(batch):
                self._row(row, made, letters)
            return self._outputs(made, letters)
        times = self._time.of(batch)
        late = times < self._watermark
        out: list[Output] = []
        if late.any():
            out.append((LATE, Data(keep(batch, late))))
            batch, times = keep(batch, ~late), times[~late]
        self._waiting.append(batch, times)
        return out

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        if self._time is None:
            return [], batch, None
        late = self._time.of(batch)[behind.rows] < self._time.ceils_units(behind.watermarks_us)
        return set_aside(batch, behind, late=late, port=LATE)

    def on_watermark(self, watermark_us: int) -> list[Output]:
        if self._time is None:
            return []
        self._watermark = max(self._watermark, self._time.ceil_units(watermark_us))
        made, letters = self._nothing()
        batch, times = self._waiting.take_below(self._watermark)
        order = np.argsort(times, kind="stable")
        rows = to_rows(take(batch, order))
        for at, row in zip(times[order].tolist(), rows, strict=True):
            self._fire(at, made, letters)
            self._row(row, made, letters)
        self._fire(self._watermark, made, letters)
        return self._outputs(made, letters)

    def _nothing(self) -> tuple[list[Row], list[Letter]]:
        return [], []

    def _row(self, row: Row, made: list[Row], letters: list[Letter]) -> None:
        self._call(tuple(row[name] for name in self._key), row, self._on_row, (row,), made, letters)

    def _fire(self, now: int, made: list[Row], letters: list[Letter]) -> None:
        """Timers that are due, oldest first; those they ask for may be due as well."""
        while self._due and self._due[0][0] <= now:
            at, _, key = heapq.heappop(self._due)
            if at not in self._timers.get(key, ()):
                continue
            self._set_timers(key, self._timers[key] - {at})
            named = dict(zip(self._key, key, strict=True))
            self._call(key, named, self._user.on_timer, (named, self._shown(at)), made, letters)

    def _shown(self, at: int) -> Any:
        assert self._time is not None
        return pa.scalar(at, pa.int64()).cast(self._time.kind).as_py() if pa.types.is_timestamp(self._time.kind) else at

    def _call(
        self,
        key: Key,
        about: Row,
        function: Any,
        arguments: tuple[Any, ...],
        made: list[Row],
        letters: list[Letter],
    ) -> None:
        # State is packed between calls: what cannot be packed is found at once, and a failed call leaves no trace.
        packed = self._state.get(key)
        state: dict[Any, Any] = msgpack.unpackb(packed, strict_map_key=False) if packed else {}
        timers = Timers(self._time)
        try:
            rows = _rows(function(*arguments, state, timers))
            after = cast(bytes, msgpack.packb(state)) if state else None
            if timers.asked and not hasattr(self._user, "on_timer"):
                raise TypeError("timers need a class with on_timer")
        except Exception as error:  # the user's function: anything may come
            letters.append((self._name, "", 0, f"{type(error).__name__}: {error}", str(about)))
            return
        made += rows
        if after != packed:
            if self.is_tracked:
                self._dirty.add(key)
            if after is None:
                self._state.pop(key, None)
            else:
                self._state[key] = after
        if timers.asked or timers.cleared:
            self._ask(key, timers)

    def _ask(self, key: Key, timers: Timers) -> None:
        known = set() if timers.cleared else self._timers.get(key, set())
        self._set_timers(key, known | timers.asked)
        for at in sorted(timers.asked - known):
            self._push(at, key)

    def _set_timers(self, key: Key, times: set[int]) -> None:
        if self.is_tracked:
            self._dirty.add(key)
        if times:
            self._timers[key] = times
        else:
            self._timers.pop(key, None)

    def _push(self, at: int, key: Key) -> None:
        self._number += 1
        heapq.heappush(self._due, (at, self._number, key))

    def _outputs(self, made: list[Row], letters: list[Letter]) -> list[Output]:
        out: list[Output] = []
        if made:
            try:
                out.append((MAIN, Data(from_rows(made, self._schema))))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                letters += [
                    (self._name, "", 0, f"the result does not fit its schema: {error}", str(row)) for row in made
                ]
        if letters:
            out.append((SIDE, Data(dead_letters(letters))))
        return out

    # -- state --

    def dump(self, *, changed: bool) -> tuple[Tables, Tables]:
        keys = self._dirty if changed else dict.fromkeys([*self._state, *self._timers])
        live = [key for key in keys if key in self._state or key in self._timers]
        gone = [key for key in keys if key not in self._state and key not in self._timers]
        columns = {
            "state": pa.array([self._state.get(key) for key in live], pa.binary()),
            "timers": pa.array([sorted(self._timers.get(key, ())) for key in live], pa.list_(pa.int64())),
        }
        table = keyed_table(self._columns(live), columns)
        removed = keyed_table(self._columns(gone), {"gone": pa.array([1] * len(gone), pa.int8())})
        tables = {"states": table, "rows": self._waiting.dump(changed=changed)}
        return tables, {"states": removed} if changed else {}

    def _columns(self, keys: list[Key]) -> list[pa.Array]:
        return [pa.array([key[at] for key in keys], kind) for at, kind in enumerate(self._types)]

    def load(self, name: str, rows: pa.RecordBatch) -> None:
        if name == "rows":
            self._waiting.load(rows)
            return
        states, timers = rows.column("state").to_pylist(), rows.column("timers").to_pylist()
        for key, state, times in zip(self._keys_of(rows), states, timers, strict=True):
            self._forget(key)
            if state is not None:
                self._state[key] = state
            if times:
                self._timers[key] = set(times)
                for at in times:
                    self._push(at, key)

    def remove(self, name: str, rows: pa.RecordBatch) -> None:
        for key in self._keys_of(rows):
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._state.pop(key, None)
        self._timers.pop(key, None)

    def _keys_of(self, rows: pa.RecordBatch) -> list[Key]:
        columns = [column.to_pylist() for column in key_columns(rows)]
        return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows

    def clean(self) -> None:
        self._dirty = set()
        self._waiting.clean()

    def marks(self) -> dict[str, int]:
        return {"watermark": self._watermark}

    def set_marks(self, marks: dict[str, int]) -> None:
        self._watermark = marks["watermark"]
        self._waiting.take_below(self._watermark)


def _rows(result: Any) -> list[Row]:
    if result is None:
        return []
    if isinstance(result, dict):
        return [result]
    if not isinstance(result, Iterable):
        raise TypeError(f"process must give rows, not {type(result).__name__}")
    rows = list(result)
    if not all(isinstance(row, dict) for row in rows):
        raise TypeError("process must give dicts")
    return rows


def draft(flow: Flow, key: tuple[str, ...], function: Any, schema: SchemaLike, place: Place) -> Draft:
    require_columns(flow.schema, key, operator="key_by", place=place)
    if not callable(function) and not hasattr(function, "on_row"):
        raise AppError(f"process: {function!r} is neither a function nor a class with on_row", place=place)
    if isinstance(function, type) and not hasattr(function, "on_row"):
        raise AppError(f"process: class {function.__name__} has no on_row", place=place)
    try:
        columns = parse_schema(schema)
    except AppError as error:
        raise AppError(f"process: {error.message}", place=place) from error
    return Draft(
        "process",
        (flow.with_schema(columns), Flow(DEAD_LETTER_SCHEMA), flow),
        lambda: Process(key, flow, function, columns),
        detail=getattr(function, "__name__", type(function).__name__),
        stateful=True,
        key=key,
        ports=("", "dead_letters", "late"),
    )
