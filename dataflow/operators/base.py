"""What an operator is to the engine: messages in, messages out, no clock and no thread.

`on_batch` gets rows of one input; `on_watermark` the merged watermark of all of them. Marks other than
watermarks never reach an operator: the instance around it aligns tokens and forwards idle and end.
A stateful operator also offers its state as bytes (see state/snapshot.py).
"""

from __future__ import annotations

import pyarrow as pa

from dataflow.messages import Data, Message

Output = tuple[int, Message]
MAIN, SIDE = 0, 1


class Operator:
    """One step of an app. The default does nothing to nothing."""

    ports = 1

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        raise NotImplementedError

    def on_watermark(self, watermark_us: int) -> list[Output]:
        """Event time has come so far; what is complete goes out before the watermark does."""
        return []

    def held_watermark(self, watermark_us: int) -> int:
        """What to promise downstream; less than we know if older rows may still go out."""
        return watermark_us


class Stateless(Operator):
    """An operator that can be fused with its neighbours: one batch in, at most one batch out."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        result = self.apply(batch)
        return [(MAIN, Data(result))] if result.num_rows else []
