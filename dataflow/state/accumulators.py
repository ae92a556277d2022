"""Running aggregates of many groups at once: one numpy column a number, one ufunc call a batch.

A group is a slot. `update` folds rows in, `combine` folds the partial results of other groups in (panes of a
sliding window, sessions that meet), `finish` gives the Arrow columns of the result.

Nulls are left out, as in narwhals: only batches that have nulls pay for them (groups count their nulls, not
their values). NaN is ignored by min and max. Int sums are int64, float sums float64; an int sum that does not fit
stops the app with a sentence (see headroom.py), as does the mean of such numbers, which is made of their sum.
Rejected: np.unique + reduceat (a sort a batch, ten times the cost of ufunc.at in numpy 2).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dataflow.batches import AnyArray, Ints, validity
from dataflow.errors import NOWHERE, AppError, Place
from dataflow.state.columns import numpy_type, to_arrow, to_numpy
from dataflow.state.headroom import Headroom
from dataflow.state.slots import SLOTS_MIN

COUNT = "count"  # rows of the group, nulls included


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What to compute: a kind, over which input column (-1: rows), under which name and type; and where it is asked."""

    name: str
    kind: str
    input: int
    input_type: pa.DataType
    type: pa.DataType
    text: str = ""
    place: Place = NOWHERE


KINDS = ("count", "len", "sum", "mean", "min", "max", "first", "last", "var", "std")


def result_type(kind: str, input_type: pa.DataType) -> pa.DataType | None:
    """The type of an aggregate of such a column; None if it has none."""
    number = pa.types.is_integer(input_type) or pa.types.is_floating(input_type) or pa.types.is_boolean(input_type)
    if kind in ("count", "len"):
        return pa.int64()
    if kind == "sum":
        return (pa.float64() if pa.types.is_floating(input_type) else pa.int64()) if number else None
    if kind in ("mean", "var", "std"):
        return pa.float64() if number else None
    return input_type if kind in ("min", "max", "first", "last") else None


@dataclass(slots=True)
class _Part:
    """One stored column: how rows go in and how two groups become one."""

    input: int
    role: str
    start: Any
    dtype: np.dtype[np.generic]


class Accumulators:
    """The stored columns of a list of aggregates."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self.aggregates = tuple(aggregates)
        self._parts: dict[str, _Part] = {COUNT: _Part(-1, "sum", 0, np.dtype(np.int64))}
        for aggregate in aggregates:
            self._plan(aggregate)
        self.columns: dict[str, AnyArray] = {
            name: np.full(SLOTS_MIN, part.start, part.dtype) for name, part in self._parts.items()
        }
        self._headroom = {
            name: Headroom()
            for name, part in self._parts.items()
            if name.startswith("sum") and part.dtype == np.int64
        }

    def _plan(self, aggregate: Aggregate) -> None:
        at, kind = aggregate.input, aggregate.kind
        if kind == "len":
            return
        self._parts.setdefault(f"nulls{at}", _Part(at, "sum", 0, np.dtype(np.int64)))
        stored = numpy_type(aggregate.input_type)
        total = np.dtype(np.float64) if stored == np.float64 else np.dtype(np.int64)
        if kind in ("sum", "mean", "var", "std"):
            self._parts.setdefault(f"sum{at}", _Part(at, "sum", 0, total))
        if kind in ("var", "std"):
            self._parts.setdefault(f"square{at}", _Part(at, "square", 0, np.dtype(np.float64)))
        if kind in ("min", "max"):
            self._parts.setdefault(f"{kind}{at}", _Part(at, kind, _extreme(kind, stored), stored))
        if kind in ("first", "last"):
            self._parts.setdefault(f"{kind}{at}", _Part(at, kind, None if stored.hasobject else 0, stored))

    def grow(self, capacity: int) -> None:
        for name, part in self._parts.items():
            old = self.columns[name]
            if capacity > len(old):
                self.columns[name] = np.full(capacity, part.start, part.dtype)
                self.columns[name][: len(old)] = old

    def clear(self, slots: Ints) -> None:
        for name, part in self._parts.items():
            self.columns[name][slots] = part.start

    def update(self, slots: Ints, inputs: Sequence[pa.Array]) -> None:
        """Fold rows into their groups."""
        valid_of = [validity(array) for array in inputs]
        values_of: dict[int, AnyArray] = {}
        for name, part in self._parts.items():
            if part.input < 0 or name.startswith("nulls"):
                continue
            at, valid = part.input, valid_of[part.input]
            if at not in values_of:
                values_of[at] = to_numpy(inputs[at] if valid is None else inputs[at].drop_null())
            self._fold_rows(name, part, slots if valid is None else slots[valid], values_of[at])
        for at, valid in enumerate(valid_of):
            if valid is not None and f"nulls{at}" in self.columns:
                np.add.at(self.columns[f"nulls{at}"], slots[~valid], 1)
        np.add.at(self.columns[COUNT], slots, 1)

    def _fold_rows(self, name: str, part: _Part, slots: Ints, values: AnyArray) -> None:
        column = self.columns[name]
        if part.role == "sum":
            self._require_room(name, slots, values)
            np.add.at(column, slots, values if values.dtype == column.dtype else values.astype(column.dtype))
        elif part.role == "square":
            np.add.at(column, slots, np.square(values.astype(np.float64)))
        elif part.role == "last":
            column[slots] = values
        elif part.role == "first":
            begun = self._values_seen(part.input, slots) > 0
            # Written backwards, so that the earliest of the batch stays.
            column[slots[~begun][::-1]] = values[~begun][::-1]
        else:
            _fold_extreme(part.role, column, slots, values)

    def _require_room(self, name: str, slots: Ints, values: AnyArray) -> None:
        headroom = self._headroom.get(name)
        if headroom is None or headroom.fits(self.columns[name], slots, values):
            return
        at = self._parts[name].input
        asked = next(a for a in self.aggregates if a.input == at and a.kind in ("sum", "mean", "var", "std"))
        raise AppError(
            f'aggregate: "{asked.name}" adds up {asked.text} to more than int64 holds; '
            f"make it float64 first: ({asked.text} / 1).{asked.kind}()",
            place=asked.place,
        )

    def _values_seen(self, at: int, slots: Ints) -> Ints:
        seen: Ints = self.columns[COUNT][slots] - self.columns[f"nulls{at}"][slots]
        return seen

    def take(self, slots: Ints) -> dict[str, AnyArray]:
        """The stored numbers of some groups, for `combine` elsewhere or a snapshot."""
        return {name: column[slots] for name, column in self.columns.items()}

    def put(self, slots: Ints, partial: dict[str, AnyArray]) -> None:
        for name, column in self.columns.items():
            column[slots] = partial[name]
        for name, headroom in self._headroom.items():
            headroom.put(partial[name])

    def combine(self, slots: Ints, partial: dict[str, AnyArray]) -> None:
        """Fold partial results, in the order of the stream, into groups."""
        for name, part in self._parts.items():
            if part.role in ("min", "max"):
                _fold_extreme(part.role, self.columns[name], slots, partial[name])
            elif part.role in ("first", "last"):
                self._combine_ends(name, part, slots, partial)
        for name, part in self._parts.items():
            if part.role in ("sum", "square"):
                self._require_room(name, slots, partial[name])
                np.add.at(self.columns[name], slots, partial[name])

    def _combine_ends(self, name: str, part: _Part, slots: Ints, partial: dict[str, AnyArray]) -> None:
        some = partial[COUNT] > partial[f"nulls{part.input}"]
        column = self.columns[name]
        if part.role == "last":
            column[slots[some]] = partial[name][some]
        else:
            some &= self._values_seen(part.input, slots) == 0
            column[slots[some][::-1]] = partial[name][some][::-1]

    def types(self) -> dict[str, pa.DataType]:
        """How the stored columns look as Arrow columns of a snapshot."""
        of_input = {aggregate.input: aggregate.input_type for aggregate in self.aggregates}
        return {
            name: of_input[part.input] if part.dtype.hasobject else pa.from_numpy_dtype(part.dtype)
            for name, part in self._parts.items()
        }

    def finish(self, slots: Ints) -> list[pa.Array]:
        """The results of some groups, one Arrow column an aggregate."""
        return finish(self.aggregates, self.take(slots))


def finish(aggregates: Sequence[Aggregate], partial: dict[str, AnyArray]) -> list[pa.Array]:
    return [_finish_one(aggregate, partial) for aggregate in aggregates]


def _finish_one(aggregate: Aggregate, partial: dict[str, AnyArray]) -> pa.Array:
    at, kind = aggregate.input, aggregate.kind
    if kind == "len":
        return pa.array(partial[COUNT])
    seen = partial[COUNT] - partial[f"nulls{at}"]
    if kind == "count":
        return pa.array(seen)
    if kind == "sum":
        return to_arrow(partial[f"sum{at}"], aggregate.type)
    empty = seen == 0 if partial[f"nulls{at}"].any() else None
    if kind in ("min", "max", "first", "last"):
        return to_arrow(partial[f"{kind}{at}"], aggregate.type, empty)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = partial[f"sum{at}"] / seen
        if kind == "mean":
            return pa.array(mean, mask=empty)
        spread = np.maximum(partial[f"square{at}"] - seen * mean * mean, 0.0) / (seen - 1)
        return pa.array(spread if kind == "var" else np.sqrt(spread), mask=seen < 2)


def _extreme(kind: str, dtype: np.dtype[np.generic]) -> Any:
    if dtype.hasobject:
        return None
    if dtype == np.float64:
        return np.nan  # fmin and fmax prefer anything to NaN
    limits = np.iinfo(dtype)  # type: ignore[type-var]
    return limits.max if kind == "min" else limits.min


def _fold_extreme(role: str, column: AnyArray, slots: Ints, values: AnyArray) -> None:
    if column.dtype.hasobject:
        better: Callable[[Any, Any], bool] = operator.lt if role == "min" else operator.gt
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
            old = column[slot]
            if value is not None and (old is None or better(value, old)):
                column[slot] = value
    elif column.dtype == np.float64:
        (np.fmin if role == "min" else np.fmax).at(column, slots, values)
    else:
        (np.minimum if role == "min" else np.maximum).at(column, slots, values)
