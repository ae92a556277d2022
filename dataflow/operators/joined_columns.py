"""What the joins share: the columns of a pair, and the checks of its two sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dataflow.batches import Ints
from dataflow.errors import AppError, Place
from dataflow.graph import Flow
from dataflow.schema import require_columns


class JoinedColumns:
    """Columns of the left side, then those of the right without its key; equal names get a suffix."""

    def __init__(
        self,
        left: Flow,
        right: Flow,
        left_key: tuple[str, ...],
        right_key: tuple[str, ...],
        suffix: str,
        place: Place,
    ) -> None:
        require_columns(left.schema, left_key, operator="join", place=place)
        require_columns(right.schema, right_key, operator="join", place=place)
        if len(left_key) != len(right_key):
            raise AppError(f"join: keys differ in number: {left_key} and {right_key}", place=place)
        for a, b in zip(left_key, right_key, strict=True):
            one, other = left.schema.field(a).type, right.schema.field(b).type
            if one != other:
                raise AppError(f'join: key "{a}" is {one} but "{b}" is {other}', place=place)
        self._left = left.schema.names
        self._right = [name for name in right.schema.names if name not in right_key]
        fields = list(left.schema)
        for name in self._right:
            field = right.schema.field(name)
            taken = name in left.schema.names or name in ("window_start", "window_end")
            fields.append(field.with_name(name + suffix) if taken else field)
        self.fields = fields
        names = [field.name for field in fields]
        for name in names:
            if names.count(name) > 1:
                raise AppError(f'join: two columns are named "{name}"; choose another suffix=', place=place)

    def arrays(self, left: pa.RecordBatch, left_rows: Ints, right: pa.RecordBatch, right_rows: Ints) -> list[pa.Array]:
        """The pairs' columns; right row -1 is nothing."""
        left_at = pa.array(left_rows)
        right_at = pa.array(right_rows, mask=right_rows < 0) if np.any(right_rows < 0) else pa.array(right_rows)
        return [
            *(left.column(name).take(left_at) for name in self._left),
            *(right.column(name).take(right_at) for name in self._right),
        ]
