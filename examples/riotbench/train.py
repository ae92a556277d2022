"""RIoTBench TRAIN: when the timer says so, learn from the readings of a stretch of time.

The readings are in a Parquet file (--param table=readings.parquet). Each tick gives a regression of the target and
a tree that tells its quarter, as the JSON that PRED takes. A stretch with too few readings is a dead letter.
"""

import json

from riot import regression, table, tree
from riot.datasets import DATASETS

from dataflow import App
from dataflow.batches import Row

MODEL = {"at": "timestamp[ms]", "dataset": "string", "kind": "string", "model": "string"}
ROWS = {"at": "timestamp[ms]", "features": "list<list<float64>>", "targets": "list<float64>"}

app = App("riotbench-train")
dataset = DATASETS[app.param("dataset", "sys")]
path = app.param("table", "readings.parquet")


def fetch(row: Row) -> Row:
    rows = table.between(path, row["row_start"], row["row_end"], columns=[*dataset.features, dataset.target])
    return {"at": row["at"], "features": [values[:-1] for values in rows], "targets": [values[-1] for values in rows]}


def learn_line(row: Row) -> Row:
    return model(row, "regression", regression.fit(row["features"], row["targets"]))


def by_quartile(row: Row) -> Row:
    return {"at": row["at"], "features": row["features"], "classes": tree.classes_by_quartile(row["targets"])}


def learn_tree(row: Row) -> Row:
    return model(row, "tree", tree.fit(row["features"], row["classes"]))


def model(row: Row, kind: str, parameters: Row) -> Row:
    return {"at": row["at"], "dataset": dataset.name, "kind": kind, "model": json.dumps(parameters)}


ticks = app.source(
    "ticks",
    schema={"at": "timestamp[ms]", "row_start": "timestamp[ms]", "row_end": "timestamp[ms]"},
)
rows = ticks.map(fetch, schema=ROWS)
lines = rows.map(learn_line, schema=MODEL)
classed = rows.map(by_quartile, schema={**ROWS, "classes": "list<string>"})
trees = classed.map(learn_tree, schema=MODEL)
lines.union(trees).sink("models")
