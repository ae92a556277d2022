"""What operators on windows of time share: a window in the unit of its event time, and the columns of its result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dataflow.batches import Ints
from dataflow.behind import Behind
from dataflow.errors import AppError, Place
from dataflow.graph import Flow
from dataflow.operators.base import Settled, set_aside
from dataflow.state.pane_windows import PaneWindows
from dataflow.times import TimeColumn
from dataflow.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """A window in the unit of its event time."""

    time: TimeColumn
    pane: int
    offset: int
    shape: PaneWindows
    allowed_us: int

    def panes_of(self, times: Ints) -> Ints:
        return (times - self.offset if self.offset else times) // self.pane

    def closed_panes(self, watermark_us: int) -> int:
        """Panes that begin before this one are over, lateness included."""
        return (self.time.ceil_units(watermark_us - self.allowed_us) - self.offset) // self.pane

    def closed(self, watermarks_us: Ints) -> Ints:
        """Like closed_panes, of many."""
        return self.panes_of(self.time.ceils_units(watermarks_us - self.allowed_us))

    def settle(self, batch: pa.RecordBatch, behind: Behind) -> Settled:
        """A row is late if all its windows were closed when it was read. It is torn if only some of them were."""
        shape = self.shape
        panes = self.panes_of(self.time.of(batch)[behind.rows])
        next_starts = ((self.closed(behind.watermarks_us) - shape.size) // shape.slide + 1) * shape.slide
        late = panes // shape.slide * shape.slide < next_starts
        first_starts = -((shape.size - 1 - panes) // shape.slide) * shape.slide
        torn = None if shape.size == shape.slide else ~late & (first_starts < next_starts)
        out, rest, left = set_aside(batch, behind, late=late, torn=torn, held_us=self.allowed_us)
        if left and torn is not None:
            # One cut for each window that closes is enough: watermarks in between change nothing here.
            _, first, group = np.unique(next_starts[torn], return_index=True, return_inverse=True)
            left = Behind(left.rows, left.watermarks_us[first][group])
        return out, rest, left


def window_times(flow: Flow, window: TimeWindow, allowed_us: int) -> WindowTimes:
    assert flow.time is not None
    pane = flow.time.span(window.pane_us, what="window")
    shape = PaneWindows(window.size_us // window.pane_us, window.slide_us // window.pane_us)
    return WindowTimes(flow.time, pane, flow.time.span(window.offset_us, what="window offset"), shape, allowed_us)


def require_time(flow: Flow, operator: str, place: Place) -> TimeColumn:
    if flow.time is None:
        raise AppError(
            f"{operator}: the stream has no event time; give event_time= to the source and keep its column",
            place=place,
        )
    return flow.time


def window_fields(time: TimeColumn) -> list[pa.Field]:
    return [pa.field("window_start", time.kind), pa.field("window_end", time.kind)]


def window_flow(time: TimeColumn, fields: list[pa.Field], operator: str, place: Place) -> Flow:
    """Columns of a window's result; its event time is the last instant of the window."""
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise AppError(f'{operator}: two result columns are named "{name}"', place=place)
    return Flow(pa.schema(fields), TimeColumn("window_end", time.kind, shift=-1))
