"""Readings of weather stations (SYS) and of cabs (TAXI), made at the speed of numpy, and as SenML messages.

Values lie in their ranges but for one in twenty; the target follows the features, with noise, so that there is
something to learn. A message a second, sensors in no particular order.

The same arguments give the same rows. No app imports this file; it feeds them:

    python -m examples.riotbench.generate sys city     # a folder: messages.jsonl, readings.parquet, ticks.jsonl
    peer launch --local examples/riotbench/etl.py --source messages=file:city/messages.jsonl
    peer launch --local examples/riotbench/train.py --source ticks=file:city/ticks.jsonl \\
        --param table=city/readings.parquet

>>> messages(readings("sys", 2, seed=1), "sys").column("senml")[0].as_py()[:60]
'{"bt":1422748800000,"e":[{"n":"source","u":"string","sv":"st'
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dataflow.batches import AnyArray, Row, from_rows
from dataflow.connectors.sinks import JsonFile
from dataflow.schema import parse_schema
from examples.riotbench.riot.datasets import DATASETS, Dataset

START_MS = 1_422_748_800_000
WRONG_SHARE = 0.05
DIGITS = 2
TICK = parse_schema({"at": "timestamp[ms]", "row_start": "timestamp[ms]", "row_end": "timestamp[ms]"})


def readings(name: str, count: int, *, seed: int) -> pa.RecordBatch:
    """One row a message, one column a kind."""
    dataset, rng = DATASETS[name], np.random.default_rng(seed)
    numbers = np.arange(count)
    values = {kind: _values(rng, count, *dataset.ranges[kind]) for kind in dataset.kinds}
    values[dataset.target] = _target(rng, dataset, values)
    for kind, (low, high) in dataset.ranges.items():
        wrong = rng.random(count) < WRONG_SHARE
        values[kind] = np.round(np.where(wrong, high + (high - low) * rng.random(count) + 1, values[kind]), DIGITS)
    columns = {
        "id": pa.array(numbers),
        "at": pa.array(START_MS + numbers * 1000).cast(pa.timestamp("ms")),
        "sensor": pa.array(dataset.sensors).take(pa.array(rng.integers(len(dataset.sensors), size=count))),
        **{kind: pa.array(values[kind], pa.float64()) for kind in dataset.kinds},
    }
    return pa.RecordBatch.from_pydict(columns)


def messages(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The same rows as the SenML messages that devices send."""
    dataset = DATASETS[name]
    parts: list[object] = ['{"bt":', rows.column("at").cast(pa.int64()).cast(pa.string()), ',"e":[']
    parts += [f'{{"n":"{dataset.source}","u":"string","sv":"', rows.column("sensor"), '"}']
    for kind in dataset.kinds:
        parts += [f',{{"n":"{kind}","u":"per","v":"', rows.column(kind).cast(pa.string()), '"}']
    text = pc.binary_join_element_wise(*parts, "]}", "")
    return pa.RecordBatch.from_pydict({"id": rows.column("id"), "at": rows.column("at"), "senml": text})


def ticks(count: int, *, every_s: int) -> list[Row]:
    """TRAIN's timer: each tick asks for the stretch that has just passed."""
    start, step = datetime(2015, 2, 1), timedelta(seconds=every_s)
    return [
        {"at": start + (n + 1) * step, "row_start": start + n * step, "row_end": start + (n + 1) * step}
        for n in range(count)
    ]


def _values(rng: np.random.Generator, count: int, low: float, high: float) -> AnyArray:
    return low + (high - low) * rng.random(count)


def _target(rng: np.random.Generator, dataset: Dataset, values: dict[str, AnyArray]) -> AnyArray:
    """A weighted mean of the features' places in their ranges, and a tenth of noise."""
    places = [
        (values[kind] - dataset.ranges[kind][0]) / (dataset.ranges[kind][1] - dataset.ranges[kind][0])
        for kind in dataset.features
    ]
    weights = np.arange(1, len(places) + 1)
    place = 0.9 * sum(w * p for w, p in zip(weights, places, strict=True)) / weights.sum()
    low, high = dataset.ranges[dataset.target]
    mixed: AnyArray = low + (high - low) * (place + 0.1 * rng.random(len(place)))
    return mixed


def save(name: str, folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = readings(name, count, seed=1)
    pq.write_table(pa.Table.from_batches([rows]), folder / "readings.parquet")
    _json_lines(messages(rows, name), folder / "messages.jsonl")
    _json_lines(from_rows(ticks(count // 300, every_s=300), TICK), folder / "ticks.jsonl")


def _json_lines(batch: pa.RecordBatch, path: Path) -> None:
    file = JsonFile(str(path))
    file.open(batch.schema)
    file.write(batch)
    file.close()


if __name__ == "__main__":
    save(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1500)
