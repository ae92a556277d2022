"""RIoTBench STATS: three views of every sensor, as points of one plot.

The average of each block of readings; where the smoothed readings (Kalman) lead ten readings from now, by a line
through the last ten; and about how many sensors report each kind.
"""

from collections.abc import Iterator

from riot.datasets import DATASETS
from riot.kalman import Estimate
from riot.loglog import BUCKETS, added, estimate
from riot.senml import MESSAGE, OBSERVATION, observations_of
from riot.trend import ahead

from dataflow import App, count_window, lit, mean
from dataflow.batches import Row
from dataflow.operators.process import Timers

TRAIN, HORIZON = 10, 10
COUNT = {"kind": "string", "value": "float64"}

app = App("riotbench-stats")
dataset = DATASETS[app.param("dataset", "sys")]


def smooth(row: Row, state: Row, timers: Timers) -> Row:
    after = Estimate(*state.get("estimate", Estimate())).after(row["value"])
    state["estimate"] = list(after)
    return {**row, "value": after.value}


def trend(row: Row, state: Row, timers: Timers) -> Iterator[Row]:
    state["last"] = [*state.get("last", []), row["value"]][-TRAIN:]
    if len(state["last"]) == TRAIN:
        yield {**row, "value": ahead(state["last"], steps=HORIZON)}


def sensors_heard(row: Row, state: Row, timers: Timers) -> Iterator[Row]:
    before = state.get("registers", bytes(BUCKETS))
    state["registers"] = added(before, row["sensor"])
    if state["registers"] != before:
        yield {"kind": row["kind"], "value": estimate(state["registers"])}


messages = app.source("messages", schema=MESSAGE, event_time="at", lateness="2s")
fields = messages.flat_map(observations_of(dataset), schema=OBSERVATION)
by_sensor = fields.key_by("sensor", "kind")

averages = by_sensor.window(count_window(dataset.block_rows)).aggregate(value=mean("value"))
smoothed = by_sensor.process(smooth, schema=OBSERVATION)
trends = smoothed.key_by("sensor", "kind").process(trend, schema=OBSERVATION)
sensors = fields.key_by("kind").process(sensors_heard, schema=COUNT).with_columns(sensor=lit(""))

point = ("sensor", "kind", "value")
views = {"average": averages, "trend": trends, "sensors": sensors}
points = [view.select(*point, line=lit(name)) for name, view in views.items()]
points[0].union(*points[1:]).sink("plot")
