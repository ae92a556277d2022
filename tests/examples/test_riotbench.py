"""Each dataflow of RIoTBench gives what a plain loop over the same messages gives."""

import doctest
import hashlib
import importlib
import json
import math
from collections import Counter, defaultdict, deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataflow.connectors.sinks import Memory
from dataflow.engine.executor import Executor
from dataflow.loading import load_app
from dataflow.local import run
from dataflow.messages import Data, End
from dataflow.plan import make_plan
from dataflow.testing import run_batches, run_rows
from examples.riotbench import generate
from examples.riotbench.generate import messages, readings, ticks
from examples.riotbench.riot.datasets import DATASETS

APPS = Path(__file__).parents[2] / "examples" / "riotbench"
COUNT = 1500
ROWS = {name: readings(name, COUNT, seed=5).to_pylist() for name in DATASETS}
MESSAGES = {name: messages(readings(name, COUNT, seed=5), name) for name in DATASETS}
both = pytest.mark.parametrize("name", ["sys", "taxi"])


def app_of(stem, name="sys", **params):
    return load_app(APPS / f"{stem}.py", {"dataset": name, **params})


def sliced(batch, rows):
    return [batch.slice(at, rows) for at in range(0, batch.num_rows, rows)]


def bag(rows):
    return Counter(tuple(sorted(row.items())) for row in rows)


def values_by_sensor(name):
    """Every series of one sensor and kind, in order of time."""
    series = defaultdict(list)
    for row in ROWS[name]:
        for kind in DATASETS[name].kinds:
            series[row["sensor"], kind].append(row[kind])
    return series


@both
def test_messages_say_what_the_readings_say(name):
    for row, message in zip(ROWS[name], MESSAGES[name].to_pylist(), strict=True):
        entries = {entry["n"]: entry for entry in json.loads(message["senml"])["e"]}
        assert entries[DATASETS[name].source]["sv"] == row["sensor"]
        assert all(float(entries[kind]["v"]) == row[kind] for kind in DATASETS[name].kinds)


@both
@pytest.mark.parametrize("batch_rows", [1500, 70])
def test_etl_cleans_joins_and_annotates(name, batch_rows):
    dataset = DATASETS[name]
    history: dict[Any, deque[float]] = defaultdict(lambda: deque(maxlen=5))
    installed = set(dataset.installed)
    places = dict(zip(*dataset.places.values(), strict=True))
    expected, repaired = [], 0
    for row in ROWS[name]:
        entries = [{"n": dataset.source, "sv": row["sensor"]}]
        for kind, (low, high) in dataset.ranges.items():
            seen = history[row["sensor"], kind]
            if low <= row[kind] <= high and f"{row['sensor']}/{kind}" in installed:
                seen.append(row[kind])
                entries.append({"n": kind, "v": str(row[kind])})
            else:
                repaired += 1
                entries.append({"n": kind, "v": str(sum(seen) / len(seen)) if seen else "0.0"})
        expected.append((row["id"], [*entries, {"n": "place", "sv": places[row["sensor"]]}]))
    out = run_batches(app_of("etl", name), {"messages": sliced(MESSAGES[name], batch_rows)})["published"]
    assert repaired > 300
    assert [(row["id"], json.loads(row["senml"])["e"]) for row in out] == expected
    assert [json.loads(row["senml"])["bt"] for row in out] == MESSAGES[name].column("at").cast("int64").to_pylist()


def test_etl_gives_up_a_message_that_lacks_a_field_and_sets_broken_ones_aside():
    app = app_of("etl")
    lines = MESSAGES["sys"].slice(0, 3).to_pylist()
    lines[0]["senml"] = lines[0]["senml"].replace('"n":"dust"', '"n":"sand"')
    lines[1]["senml"] = "{"
    out = run_rows(app, {"messages": lines})
    assert [row["id"] for row in out["published"]] == [2]


@both
@pytest.mark.parametrize("batch_rows", [1500, 70])
def test_stats_plots_averages_trends_and_counts(name, batch_rows):
    block = DATASETS[name].block_rows
    rows = run_batches(app_of("stats", name), {"messages": sliced(MESSAGES[name], batch_rows)})["plot"]
    lines: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        lines[row["line"]][row["sensor"], row["kind"]].append(row["value"])
    series = values_by_sensor(name)
    for key, values in series.items():
        blocks = np.array(values[: len(values) // block * block]).reshape(-1, block)
        assert lines["average"][key] == pytest.approx(blocks.mean(axis=1).tolist())
        assert lines["trend"][key] == pytest.approx(trends(values))
    assert len(lines["trend"]) == len(series)
    for kind in DATASETS[name].kinds:
        assert lines["sensors"]["", kind] == pytest.approx(counts(row["sensor"] for row in ROWS[name]))
        assert lines["sensors"]["", kind][-1] == pytest.approx(len(DATASETS[name].sensors), rel=0.1)


def trends(values):
    """The Kalman filter in information form, then numpy's line."""
    value, variance, smooth = 0.0, 30.0, []
    for measured in values:
        guessed = variance + 0.125
        variance = 1 / (1 / guessed + 1 / 0.32)
        value = variance * (value / guessed + measured / 0.32)
        smooth.append(value)
    windows = (smooth[end - 10 : end] for end in range(10, len(smooth) + 1))
    return [float(np.polyval(np.polyfit(range(10), window, 1), 19)) for window in windows]


def bucket_and_rank(name):
    """Of a hash written out in bits: the number of its first ten, and where the others have their first 1."""
    bits = f"{int(hashlib.blake2b(name.encode(), digest_size=8).hexdigest(), 16):064b}"
    return int(bits[:10], 2), bits[10:].find("1") + 1


def counts(names):
    """Linear counting of the buckets in use, whenever a new name makes a bucket's rank higher."""
    ranks: dict[int, int] = {}
    out = []
    for bucket, rank in map(bucket_and_rank, names):
        if rank > ranks.get(bucket, 0):
            ranks[bucket] = rank
            out.append(-1024 * math.log(1 - len(ranks) / 1024))
    return out


def test_loglog_stays_close_when_all_buckets_are_full():
    loglog = helper("loglog")
    registers = [0] * 1024
    for bucket, rank in (bucket_and_rank(str(number)) for number in range(20_000)):
        registers[bucket] = max(registers[bucket], rank)
    assert min(registers) > 0
    assert loglog.added(bytes(registers), "7") == bytes(registers)
    assert loglog.estimate(bytes(registers)) == pytest.approx(20_000, rel=0.1)


@pytest.fixture
def parquet(tmp_path):
    def write(name):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_batches([readings(name, COUNT, seed=5)]), path)
        return str(path)

    return write


@both
def test_train_learns_from_each_stretch(name, parquet):
    dataset = DATASETS[name]
    app = app_of("train", name, table=parquet(name))
    out = run_rows(app, {"ticks": ticks(3, every_s=300)})["models"]
    models = {(row["at"], row["kind"]): json.loads(row["model"]) for row in out}
    assert len(models) == 6
    for at, tick in enumerate(ticks(3, every_s=300)):
        rows = ROWS[name][at * 300 : at * 300 + 300]
        features = [[row[kind] for kind in dataset.features] for row in rows]
        targets = [row[dataset.target] for row in rows]
        line = models[tick["at"], "regression"]
        assert [*line["weights"], line["intercept"]] == pytest.approx(normal_equations(features, targets), rel=1e-6)
        ordered = sorted(targets)
        cuts = [ordered[k] + (ordered[k + 1] - ordered[k]) * part for k, part in ((74, 0.75), (149, 0.5), (224, 0.25))]
        classes = [("Bad", "Average", "Good", "VeryGood")[sum(value >= cut for cut in cuts)] for value in targets]
        assert models[tick["at"], "tree"] == grown(features, classes, depth=3)


def normal_equations(features, targets):
    matrix = np.array([[*row, 1.0] for row in features])
    return np.linalg.solve(matrix.T @ matrix, matrix.T @ np.array(targets)).tolist()


def grown(rows, classes, *, depth):
    """A tree by trying every split and counting."""
    tally = Counter(classes)
    if depth == 0 or len(tally) == 1:
        return {"class": min(tally, key=lambda name: (-tally[name], name))}
    best = None
    for feature in range(len(rows[0])):
        ordered = sorted({row[feature] for row in rows})
        pairs = sorted(zip((row[feature] for row in rows), classes, strict=True))
        left: Counter[str] = Counter()
        right, done = Counter(classes), 0
        for low, high in pairwise(ordered):
            while done < len(pairs) and pairs[done][0] <= low:
                left[pairs[done][1]] += 1
                right[pairs[done][1]] -= 1
                done += 1
            gini = sum(
                n * (1 - sum((c / n) ** 2 for c in side.values()))
                for side, n in ((left, done), (right, len(pairs) - done))
            )
            if best is None or gini < best[0] - 1e-9:
                best = (gini, feature, (low + high) / 2)
    assert best is not None
    _, feature, below = best
    sides = [[at for at, row in enumerate(rows) if (row[feature] < below) is wanted] for wanted in (True, False)]
    yes, no = (grown([rows[at] for at in side], [classes[at] for at in side], depth=depth - 1) for side in sides)
    return {"feature": feature, "below": below, "yes": yes, "no": no}


def test_train_sets_a_stretch_without_readings_aside(parquet):
    app = app_of("train", table=parquet("sys"))
    asked = ticks(1, every_s=300)
    asked[0]["row_end"] = asked[0]["row_start"]
    assert run_rows(app, {"ticks": asked})["models"] == []


@both
def test_pred_takes_new_models_as_they_come(name, parquet):
    dataset = DATASETS[name]
    trained = run_rows(app_of("train", name, table=parquet(name)), {"ticks": ticks(2, every_s=300)})["models"]
    first, second = ([row for row in trained if row["at"] == tick["at"]] for tick in ticks(2, every_s=300))
    steps = [
        ("messages", MESSAGES[name].slice(0, 40)),  # no model yet: no prediction
        ("models", first),
        ("messages", MESSAGES[name].slice(40, 600)),
        ("models", second),
        ("messages", MESSAGES[name].slice(640)),
    ]
    expected = []
    blocks: dict[str, list[float]] = defaultdict(list)
    for row in ROWS[name][40:]:
        line, tree = (json.loads(model["model"]) for model in (first if row["id"] < 640 else second))
        features = np.array([row[kind] for kind in dataset.features])
        expected.append((row["id"], "class", walked(tree, features)))
        block = blocks[row["sensor"]]
        block.append(row[dataset.target])
        if len(block) >= dataset.block_rows:
            full = len(block) // dataset.block_rows * dataset.block_rows
            average = np.mean(block[full - dataset.block_rows : full])
            predicted = features @ np.array(line["weights"]) + line["intercept"]
            expected.append((row["id"], "error", pytest.approx((row[dataset.target] - predicted) / average, abs=1e-9)))
    out = [
        (row["id"], row["what"], row["value"] if row["what"] == "class" else float(row["value"]))
        for row in fed(app_of("pred", name), steps)["published"]
    ]
    assert sorted(out, key=lambda row: row[:2]) == expected


def walked(tree, features):
    if "class" in tree:
        return tree["class"]
    return walked(tree["yes" if features[tree["feature"]] < tree["below"] else "no"], features)


def fed(app, steps):
    """Run with the batches of several sources in this very order."""
    executor = Executor(make_plan(app.graph))
    out: dict[str, list[dict[str, Any]]] = defaultdict(list)
    schemas = {node.name: node.draft.outputs[0].schema for node in app.graph.of_kind("source")}
    arrivals = []
    for name, rows in steps:
        batch = rows if isinstance(rows, pa.RecordBatch) else pa.RecordBatch.from_pylist(rows, schema=schemas[name])
        arrivals += executor.feed(name, Data(batch))
    for name in executor.plan.sources:
        arrivals += executor.feed(name, End())
    for sink, message in arrivals:
        if isinstance(message, Data):
            out[sink] += message.batch.to_pylist()
    return out


def helper(stem):
    """A helper as the apps see it: beside the app file."""
    load_app(APPS / "stats.py")
    return importlib.import_module(f"riot.{stem}")


@both
def test_a_saved_city_feeds_train_and_train_feeds_pred(name, tmp_path):
    generate.save(name, tmp_path, 900)
    published, models = Memory(), tmp_path / "models.jsonl"
    train = app_of("train", name, table=str(tmp_path / "readings.parquet"))
    summary = run(train, {"ticks": f"file:{tmp_path / 'ticks.jsonl'}"}, {"models": f"file:{models}"})
    assert (summary.rows_in, summary.rows_out, summary.dead_letters) == (3, 6, 0)
    summary = run(
        app_of("pred", name),
        {"messages": f"file:{tmp_path / 'messages.jsonl'}", "models": f"file:{models}"},
        {"published": published},
    )
    assert (summary.rows_in, summary.dead_letters, summary.late) == (906, 0, 0)


def test_the_example_in_the_generator_runs():
    found = doctest.testmod(generate)
    assert found.attempted and not found.failed


@pytest.mark.parametrize("stem", ["bloom", "kalman", "loglog", "regression", "senml", "tree", "trend"])
def test_the_examples_in_the_helpers_run(stem):
    found = doctest.testmod(helper(stem))
    assert found.attempted and not found.failed
