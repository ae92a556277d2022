"""Rows that could not be read or worked on, with where they came from and why.

They are a stream like any other, so an app can keep, count or mend them; they never stop it.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.string()),
    ]
)
RAW_CHARACTERS_MAX = 1000  # enough to recognise the row, not enough to fill a disk

Letter = tuple[str, str, int, str, str]


def dead_letters(letters: Iterable[Letter]) -> pa.RecordBatch:
    """A batch of (origin, file, line, reason, raw)."""
    rows = [(*letter[:4], letter[4][:RAW_CHARACTERS_MAX]) for letter in letters]
    columns = zip(*rows, strict=True) if rows else [[]] * 5
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, DEAD_LETTER_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTER_SCHEMA)
