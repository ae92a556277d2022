"""Expressions over columns: narwhals outside, Arrow inside.

`col("celsius") > 30` is a narwhals expression, so the same app can later run on a Spark DataFrame. Here it is
evaluated on Arrow data through `.lazy()`, which refuses what cannot run on a stream. The type of a result is
found by evaluating on no rows, and every batch is cast to it: backends widen differently.

This is the only file that looks inside narwhals' expressions (`_nodes`): to name unknown columns before
anything runs, to tell `col("x").max()` from `col("x") + 1`, and to skip narwhals where a kernel does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow.batches import Ints, empty_batch, int64s, validity, whole
from dataflow.errors import AppError, Place
from dataflow.schema import require_columns

Expr = nw.Expr
col = nw.col
lit = nw.lit
when = nw.when

ELEMENTWISE = frozenset({"COL", "ELEMENTWISE", "LITERAL", "NTH", "ALL", "SERIES", "EXCLUDE"})
COMPARISONS: dict[str, Callable[..., Any]] = {
    "__gt__": pc.greater,
    "__ge__": pc.greater_equal,
    "__lt__": pc.less,
    "__le__": pc.less_equal,
    "__eq__": pc.equal,
    "__ne__": pc.not_equal,
}
ARITHMETIC: dict[str, Callable[..., Any]] = {"__add__": pc.add, "__sub__": pc.subtract, "__mul__": pc.multiply}
LOGIC: dict[str, Callable[..., Any]] = {"__and__": pc.and_kleene, "__or__": pc.or_kleene}


def nodes(expr: Expr) -> tuple[Any, ...]:
    return tuple(getattr(expr, "_nodes", ()))


def columns_of(expr: Expr) -> Iterator[str]:
    """Every column an expression names."""
    for node in nodes(expr):
        names = node.kwargs.get("names", ()) if node.name == "col" else ()
        yield from names
        for part in node.exprs:
            if isinstance(part, Expr):
                yield from columns_of(part)


def is_elementwise(expr: Expr) -> bool:
    """Each row's result depends on that row only."""
    return all(
        node.kind.name in ELEMENTWISE and all(is_elementwise(part) for part in node.exprs if isinstance(part, Expr))
        for node in nodes(expr)
    )


def split_aggregate(expr: Expr) -> tuple[Expr | None, str] | None:
    """`col("x").max()` as (col("x"), "max"); None if it is no such thing."""
    parts = nodes(expr)
    while parts and parts[-1].name == "alias":
        parts = parts[:-1]
    if len(parts) == 1 and parts[0].name == "len":
        return None, "len"
    if len(parts) < 2 or parts[-1].exprs:
        return None
    inner = Expr(*parts[:-1])
    return (inner, parts[-1].name) if is_elementwise(inner) else None


class Projection:
    """Named expressions, checked once against a schema and run on each of its batches."""

    def __init__(self, schema: pa.Schema, exprs: Mapping[str, Any], *, operator: str, place: Place) -> None:
        self.exprs = {name: value if isinstance(value, Expr) else lit(value) for name, value in exprs.items()}
        for name, expr in self.exprs.items():
            require_columns(schema, tuple(columns_of(expr)), operator=operator, place=place)
            if not is_elementwise(expr):
                raise AppError(f'{operator}: "{name}" looks at more than one row; use a window', place=place)
        self._kernels = {name: _kernel(expr, schema) for name, expr in self.exprs.items()}
        self._slow = {name: self.exprs[name] for name, kernel in self._kernels.items() if kernel is None}
        self.types: dict[str, pa.DataType] = {}
        try:
            arrays = self._evaluate(empty_batch(schema))
        except Exception as error:  # whatever narwhals or Arrow finds wrong with the types
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise AppError(f"{operator}: the expression does not fit its columns: {reason}", place=place) from error
        self.types = {
            name: pa.int64() if pa.types.is_null(array.type) else array.type for name, array in arrays.items()
        }

    def run(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        arrays = self._evaluate(batch)
        return {
            name: array if array.type == self.types[name] else array.cast(self.types[name], safe=False)
            for name, array in arrays.items()
        }

    def _evaluate(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        slow: dict[str, pa.Array] = {}
        if self._slow:
            table = pa.Table.from_batches([batch])
            names = {f"__{at}": expr for at, expr in enumerate(self._slow.values())}
            result = nw.from_native(table).lazy().with_columns(**names).collect().to_native()
            slow = {name: whole(result.column(f"__{at}")) for at, name in enumerate(self._slow)}
        return {name: slow[name] if kernel is None else kernel(batch) for name, kernel in self._kernels.items()}


Kernel = Callable[[pa.RecordBatch], Any]


def _kernel(expr: Expr, schema: pa.Schema) -> Kernel | None:
    """The Arrow kernels of plain arithmetic and comparison; None leaves it to narwhals (0.3 ms a call)."""
    kernel: Kernel | None = None
    for node in nodes(expr):
        if node.name == "col" and len(node.kwargs.get("names", ())) == 1 and kernel is None:
            kernel = _column(node.kwargs["names"][0])
        elif node.name == "alias":
            continue
        elif kernel is not None and len(node.exprs) == 1:
            kernel = _applied(node.name, kernel, node.exprs[0], schema)
        else:
            return None
        if kernel is None:
            return None
    return kernel


def _applied(name: str, left: Kernel, right: Any, schema: pa.Schema) -> Kernel | None:
    """One operation on what a kernel gives, where Arrow and narwhals agree about it."""
    kind = _kind(left, schema)
    if isinstance(right, Expr):
        other = _kernel(right, schema)
        if name not in LOGIC or other is None or not pa.types.is_boolean(kind):
            return None
        return _both(LOGIC[name], left, other) if pa.types.is_boolean(_kind(other, schema)) else None
    if isinstance(right, bool) or (isinstance(right, int) and abs(right) >= 1 << 62):
        return None
    if name in COMPARISONS:
        return _with_scalar(COMPARISONS[name], left, right) if _compares(kind, right) else None
    if name in ARITHMETIC and isinstance(right, (int, float)) and _is_number(kind):
        return _with_scalar(ARITHMETIC[name], left, right)
    if name in DIVISIONS and isinstance(right, int) and right > 0 and kind == pa.int64():
        return _divided(DIVISIONS[name], left, right)
    return None


def _kind(kernel: Kernel, schema: pa.Schema) -> pa.DataType:
    return kernel(empty_batch(schema)).type


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _compares(kind: pa.DataType, literal: Any) -> bool:
    """A number with a number (an int column only with an int), or text with text."""
    if isinstance(literal, (int, float)):
        return bool(pa.types.is_floating(kind) or (pa.types.is_integer(kind) and isinstance(literal, int)))
    return isinstance(literal, str) and bool(pa.types.is_string(kind))


def _column(name: str) -> Kernel:
    return lambda batch: batch.column(name)


def _with_scalar(apply: Callable[..., Any], left: Kernel, right: Any) -> Kernel:
    scalar = pa.scalar(right)
    return lambda batch: apply(left(batch), scalar)


def _both(logic: Callable[..., Any], left: Kernel, right: Kernel) -> Kernel:
    return lambda batch: logic(left(batch), right(batch))


def _divided(divide: Callable[[Ints, int], Ints], left: Kernel, right: int) -> Kernel:
    def apply(batch: pa.RecordBatch) -> Any:
        values = left(batch)
        valid = validity(values)
        return pa.array(divide(int64s(values), right), mask=None if valid is None else ~valid)

    return apply


def _remainder(values: Ints, by: int) -> Ints:
    # numpy divides by one number without dividing; its own remainder does not.
    return values - values // by * by


DIVISIONS: dict[str, Callable[[Ints, int], Ints]] = {"__mod__": _remainder, "__floordiv__": np.floor_divide}
