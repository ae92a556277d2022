"""What an operator is to the engine: messages in, messages out, no clock and no thread.

`on_batch` gets rows of one input; `on_watermark` the merged watermark of all of them. Marks other than
watermarks never reach an operator: the instance around it aligns tokens and forwards idle and end.
`settle` comes before `on_batch` for rows that were behind the watermark (see behind.py).
A stateful operator also offers its state as bytes (see state/snapshot.py).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dataflow.batches import Bools, keep
from dataflow.behind import Behind
from dataflow.messages import Data, Message

Output = tuple[int, Message]
Settled = tuple[list[Output], pa.RecordBatch, Behind | None]
MAIN, SIDE = 0, 1


class Operator:
    """One step of an app. The default does nothing to nothing."""

    ports = 1
    carries_behind = False  # it works row by row and can say where rows behind the watermark went
    settles_again = False  # after a cut it may see that the rest need not be cut
    meets_itself = False  # the rows of this source go more than one way to some operator downstream

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        raise NotImplementedError

    def on_watermark(self, watermark_us: int) -> list[Output]:
        """Event time has come so far; what is complete goes out before the watermark does."""
        return []

    def held_watermark(self, watermark_us: int) -> int:
        """What to promise downstream; less than we know if older rows may still go out."""
        return watermark_us

    def settle(self, source: int, batch: pa.RecordBatch, behind: Behind) -> Settled:
        """Decide at once about rows behind the watermark. The batch is cut in front of those that are given back."""
        return [], batch, behind

    def carry(self, source: int, batch: pa.RecordBatch, behind: Behind) -> list[Output]:
        """`on_batch` that hands rows behind the watermark on as such, if `carries_behind`."""
        raise NotImplementedError


def set_aside(
    batch: pa.RecordBatch, behind: Behind, *, late: Bools, torn: Bools | None = None, port: int = SIDE, held_us: int = 0
) -> Settled:
    """Of the rows behind: the late ones go to their port, the torn ones stay open, the others are as good as any."""
    rest = behind.only(torn) if torn is not None else None
    if not late.any():
        return [], batch, rest
    mask = np.zeros(batch.num_rows, np.bool_)
    mask[behind.rows[late]] = True
    marks = Behind(np.arange(np.count_nonzero(late)), behind.watermarks_us[late] - held_us)
    out: list[Output] = [(port, Data(keep(batch, mask), marks))]
    return out, keep(batch, ~mask), rest.after_filter(~mask) if rest else None


class Stateless(Operator):
    """An operator that can be fused with its neighbours: one batch in, at most one batch out."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        result = self.apply(batch)
        return [(MAIN, Data(result))] if result.num_rows else []

    def apply_behind(self, batch: pa.RecordBatch, behind: Behind) -> tuple[pa.RecordBatch, Behind | None]:
        """The default is for those that give one row for each."""
        return self.apply(batch), behind

    def carry(self, source: int, batch: pa.RecordBatch, behind: Behind) -> list[Output]:
        result, left = self.apply_behind(batch, behind)
        return [(MAIN, Data(result, left))] if result.num_rows else []
