"""Aggregates of a group of rows: `count()`, `sum_("x")`, `col("x").max()`.

An aggregate is a narwhals expression that ends in one of a few reductions over an elementwise inside, which
is what can be kept as a running number. `count()` counts rows; `col("x").count()` counts values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import pyarrow as pa

from dataflow.errors import AppError, Place, did_you_mean
from dataflow.expressions import Expr, Projection, col, columns_of, nodes, split_aggregate
from dataflow.state.accumulators import KINDS, Aggregate, result_type


def count(column: str | None = None) -> Expr:
    """Rows of the group, or values of a column that are not null."""
    return nw.len() if column is None else col(column).count()


def sum_(column: str) -> Expr:
    return col(column).sum()


def mean(column: str) -> Expr:
    return col(column).mean()


def min_(column: str) -> Expr:
    return col(column).min()


def max_(column: str) -> Expr:
    return col(column).max()


def first(column: str) -> Expr:
    """The value of the row that came first."""
    return col(column).first()


def last(column: str) -> Expr:
    """The value of the row that came last."""
    return col(column).last()


class AggregatePlan:
    """Checked aggregates: a projection that feeds them, and what each makes of its input."""

    def __init__(self, schema: pa.Schema, wanted: Mapping[str, Any], *, operator: str, place: Place) -> None:
        if not wanted:
            raise AppError(f"{operator}: name at least one result, for example n=count()", place=place)
        shapes = {name: _shape(name, expr, operator, place) for name, expr in wanted.items()}
        inputs: dict[str, Expr] = {}
        for inner, _ in shapes.values():
            if inner is not None:
                inputs.setdefault(repr(inner), inner)
        self._projection = Projection(schema, inputs, operator=operator, place=place)
        order = list(inputs)
        self.aggregates: list[Aggregate] = []
        for name, (inner, kind) in shapes.items():
            at = -1 if inner is None else order.index(repr(inner))
            source = pa.int64() if inner is None else self._projection.types[repr(inner)]
            target = result_type(kind, source)
            if target is None:
                raise AppError(f'{operator}: "{name}" asks for the {kind} of a {source} column', place=place)
            text = "" if inner is None else _text(inner)
            self.aggregates.append(Aggregate(name, kind, at, source, target, text, place))

    def inputs(self, batch: pa.RecordBatch) -> Sequence[pa.Array]:
        return list(self._projection.run(batch).values())

    def fields(self) -> list[pa.Field]:
        return [pa.field(aggregate.name, aggregate.type) for aggregate in self.aggregates]


def _shape(name: str, expr: Any, operator: str, place: Place) -> tuple[Expr | None, str]:
    shape = split_aggregate(expr) if isinstance(expr, Expr) else None
    if shape is None:
        raise AppError(f'{operator}: "{name}" is not an aggregate such as count() or col("x").max()', place=place)
    if shape[1] not in KINDS:
        raise AppError(f'{operator}: "{name}" uses {shape[1]}(); {did_you_mean(shape[1], KINDS)}', place=place)
    return shape


def _text(inner: Expr) -> str:
    """A plain column as the user wrote it; anything else as narwhals prints it."""
    names = list(columns_of(inner))
    return f'col("{names[0]}")' if len(names) == 1 and len(nodes(inner)) == 1 else repr(inner)
