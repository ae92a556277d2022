"""RIoTBench PRED: what models say of each message, and how far off the regression is.

TRAIN's models come in as a stream of their own, and the latest to arrive counts; messages before the first models
have no prediction. The error is (actual - predicted) / the average of the sensor's last full block of readings.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from riot import regression, tree
from riot.datasets import DATASETS
from riot.senml import MESSAGE, reading_of

from dataflow import App, col, lit
from dataflow.batches import Row
from dataflow.operators.process import Timers

MODEL = {"at": "timestamp[ms]", "dataset": "string", "kind": "string", "model": "string"}
VERDICT = {"id": "int64", "at": "timestamp[ms]", "sensor": "string", "what": "string", "value": "string"}

app = App("riotbench-pred")
dataset = DATASETS[app.param("dataset", "sys")]


@lru_cache(maxsize=2)  # the newest of each kind
def parsed(model: str) -> Any:
    return json.loads(model)


def about(row: Row, what: str, value: str) -> Row:
    return {"id": row["id"], "at": row["at"], "sensor": row["sensor"], "what": what, "value": value}


def classify(row: Row) -> Row:
    return about(row, "class", tree.predict(parsed(row["tree"]), [row[name] for name in dataset.features]))


def predict(row: Row) -> Row:
    found = regression.predict(parsed(row["regression"]), [row[name] for name in dataset.features])
    return {**row, "predicted": found, "actual": row[dataset.target]}


def error(row: Row, state: Row, timers: Timers) -> Iterator[Row]:
    block = [*state.get("block", []), row["actual"]]
    if len(block) == dataset.block_rows:
        state["average"], block = sum(block) / len(block), []
    state["block"] = block
    if "average" in state:
        yield about(row, "error", repr((row["actual"] - row["predicted"]) / state["average"]))


messages = app.source("messages", schema=MESSAGE, event_time="at", lateness="2s")
models = app.source("models", schema=MODEL).filter(col("dataset") == dataset.name)
trees = models.filter(col("kind") == "tree").select("dataset", tree=col("model"))
lines = models.filter(col("kind") == "regression").select("dataset", regression=col("model"))

readings = messages.map(reading_of(dataset), schema=dataset.reading).with_columns(dataset=lit(dataset.name))
classes = readings.enrich(trees, on="dataset", how="inner").map(classify, schema=VERDICT)
predicted = readings.enrich(lines, on="dataset", how="inner").map(
    predict, schema={**dataset.reading, "predicted": "float64", "actual": "float64"}
)
errors = predicted.key_by("sensor").process(error, schema=VERDICT)
classes.union(errors).sink("published")
