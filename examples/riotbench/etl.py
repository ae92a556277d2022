"""RIoTBench ETL: clean the readings of a city, put each message together again, say where it is from, publish.

A value out of its range, or of a probe that the sensor does not have, becomes null; a null becomes the mean of
the last five values of that sensor and kind (0 if there are none). A message of which a field is still missing a
minute later is given up.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from riot.bloom import Bloom
from riot.datasets import DATASETS
from riot.senml import MESSAGE, OBSERVATION, message_of, observations_of

from dataflow import App, col, when
from dataflow.batches import Row
from dataflow.operators.process import Timers

HISTORY = 5

app = App("riotbench-etl")
dataset = DATASETS[app.param("dataset", "sys")]
installed = Bloom(dataset.installed, bits=4096, hashes=4)


def only_installed(row: Row) -> Row:
    return row if f"{row['sensor']}/{row['kind']}" in installed else {**row, "value": None}


def interpolate(row: Row, state: Row, timers: Timers) -> Row:
    history = state.setdefault("history", [])
    if row["value"] is None:
        return {**row, "value": sum(history) / len(history) if history else 0.0}
    state["history"] = [*history, row["value"]][-HISTORY:]
    return row


class Gather:
    """One message: waits for all of its fields."""

    def on_row(self, row: Row, state: Row, timers: Timers) -> Iterator[Row]:
        state[row["kind"]] = row["value"]
        timers.set(row["at"] + timedelta(minutes=1))
        if len(state) == len(dataset.kinds):
            yield {"id": row["id"], "at": row["at"], "sensor": row["sensor"], **state}
            state.clear()
            timers.clear()

    def on_timer(self, key: Row, at: datetime, state: Row, timers: Timers) -> None:
        state.clear()


ranges = {
    "kind": list(dataset.kinds),
    "low": [float(low) for low, _ in dataset.ranges.values()],
    "high": [float(high) for _, high in dataset.ranges.values()],
}
messages = app.source("messages", schema=MESSAGE, event_time="at", lateness="2s")
fields = messages.flat_map(observations_of(dataset), schema=OBSERVATION)
in_range = (col("value") >= col("low")) & (col("value") <= col("high"))
ranged = fields.enrich(ranges, on="kind").with_columns(value=when(in_range).then(col("value"))).select(*OBSERVATION)
complete = ranged.map(only_installed).key_by("sensor", "kind").process(interpolate, schema=OBSERVATION)
joined = complete.key_by("id").process(Gather, schema=dataset.reading)
joined.enrich(dataset.places, on="sensor").map(message_of(dataset, "place"), schema=MESSAGE).sink("published")
