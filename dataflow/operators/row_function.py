"""What map and flat_map share: a user's Python function, row by row, on the slow road.

A row that the function fails on becomes a dead letter and the app goes on. The function may run in worker
processes (engine/workers.py); they reach it by importing the app file again, never by pickling it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from dataflow.batches import Row, from_rows, to_rows
from dataflow.behind import Behind
from dataflow.dead_letters import DEAD_LETTER_SCHEMA, Letter, dead_letters
from dataflow.errors import AppError, OutOfMemoryError, Place
from dataflow.graph import Draft, Flow
from dataflow.messages import Data
from dataflow.operators.base import MAIN, SIDE, Operator, Output
from dataflow.schema import SchemaLike, parse_schema

PARALLELISM_MAX = 64
Expand = Callable[[Row], Iterable[Row]]


class RowFunction(Operator):
    ports = 2
    carries_behind = True

    def __init__(self, name: str, expand: Expand, schema: pa.Schema) -> None:
        self._name = name
        self._expand = expand
        self._schema = schema

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        return self._work(batch, None)

    def carry(self, source: int, batch: pa.RecordBatch, behind: Behind) -> list[Output]:
        return self._work(batch, behind)

    def _work(self, batch: pa.RecordBatch, behind: Behind | None) -> list[Output]:
        try:
            given = to_rows(batch)
            rows, letters, left = self._call_behind(given, behind) if behind else (*self._call(given), None)
            return self._outputs(rows, letters, left)
        except MemoryError as error:
            raise OutOfMemoryError(self._name) from error

    def _call_behind(self, rows: list[Row], behind: Behind) -> tuple[list[Row], list[Letter], Behind | None]:
        """Also where the rows that were made of rows behind the watermark are."""
        made: list[Row] = []
        letters: list[Letter] = []
        marks: list[tuple[int, int]] = []
        done = 0
        for at, watermark_us in zip(behind.rows.tolist(), behind.watermarks_us.tolist(), strict=True):
            for part, is_behind in ((rows[done:at], False), (rows[at : at + 1], True)):
                more, bad = self._call(part)
                marks += [(len(made) + n, watermark_us) for n in range(len(more))] if is_behind else []
                made += more
                letters += bad
            done = at + 1
        more, bad = self._call(rows[done:])
        positions = np.array(marks, np.int64).reshape(-1, 2)
        left = Behind(positions[:, 0], positions[:, 1]) if marks else None
        return made + more, letters + bad, left

    def _outputs(self, rows: list[Row], letters: list[Letter], behind: Behind | None) -> list[Output]:
        try:
            made = from_rows(rows, self._schema)
        except MemoryError:  # Arrow's own is an ArrowException too
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
            made, misfits, fits = self._convert(rows)
            letters += misfits
            behind = behind.after_filter(np.array(fits, np.bool_)) if behind else None
        out: list[Output] = [(MAIN, Data(made, behind))] if made.num_rows else []
        if letters:
            out.append((SIDE, Data(dead_letters(letters))))
        return out

    def _call(self, rows: list[Row]) -> tuple[list[Row], list[Letter]]:
        made: list[Row] = []
        letters: list[Letter] = []
        for row in rows:
            try:
                made.extend(self._expand(row))
            except MemoryError:
                raise
            except Exception as error:  # the user's function: anything may come
                letters.append((self._name, "", 0, f"{type(error).__name__}: {error}", str(row)))
        return made, letters

    def _convert(self, rows: list[Row]) -> tuple[pa.RecordBatch, list[Letter], list[bool]]:
        fits: list[bool] = []
        letters: list[Letter] = []
        for row in rows:
            try:
                from_rows([row], self._schema)
                fits.append(True)
            except MemoryError:
                raise
            except Exception as error:
                fits.append(False)
                letters.append((self._name, "", 0, f"{type(error).__name__}: {error}", str(row)))
        good = [row for row, fit in zip(rows, fits, strict=True) if fit]
        return from_rows(good, self._schema), letters, fits


def row_draft(
    kind: str,
    flow: Flow,
    function: Any,
    expand: Expand,
    schema: SchemaLike | None,
    parallelism: int,
    place: Place,
) -> Draft:
    if not callable(function):
        raise AppError(f"{kind}: {function!r} is not a function", place=place)
    if not isinstance(parallelism, int) or not 1 <= parallelism <= PARALLELISM_MAX:
        raise AppError(f"{kind}: parallelism {parallelism!r} is not between 1 and {PARALLELISM_MAX}", place=place)
    try:
        columns = flow.schema if schema is None else parse_schema(schema)
    except AppError as error:
        raise AppError(f"{kind}: {error.message}", place=place) from error
    name = f"{kind} {getattr(function, '__name__', 'function')}"
    return Draft(
        kind,
        (flow.with_schema(columns), Flow(DEAD_LETTER_SCHEMA)),
        lambda: RowFunction(name, expand, columns),
        detail=getattr(function, "__name__", repr(function)),
        ports=("", "dead_letters"),
        parallelism=parallelism,
    )
