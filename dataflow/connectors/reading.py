"""What a source connector yields, as the message that the engine takes; anything else is told in a sentence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dataflow.batches import from_rows
from dataflow.connectors.protocol import Quiet
from dataflow.errors import AppError
from dataflow.messages import Data, Idle, Message
from dataflow.schema import schema_text


def message_of(name: str, schema: pa.Schema, each: Any) -> Message:
    """Rows or a batch of source `name`; `Letters` are not for here, they leave by a side port."""
    if isinstance(each, Quiet):
        return Idle()
    if isinstance(each, list):
        try:
            return Data(from_rows(each, schema))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise AppError(f'source "{name}" gave rows that do not fit its schema: {error}') from error
    if not isinstance(each, pa.RecordBatch):
        raise AppError(f'source "{name}" gave {type(each).__name__}, not rows or a RecordBatch')
    if not each.schema.equals(schema):
        raise AppError(
            f'source "{name}" declares ({schema_text(schema)}) but its connector gave ({schema_text(each.schema)})'
        )
    return Data(each)
