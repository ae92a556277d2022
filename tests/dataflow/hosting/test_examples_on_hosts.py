"""Every app in examples/, cut over hosts in any way, gives the rows that one process gives."""

import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataflow.batches import from_rows
from dataflow.connectors.generator import Generator
from dataflow.connectors.sinks import Memory
from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.credit import Window
from dataflow.loading import load_app
from dataflow.local import run
from dataflow.messages import Data, Token
from dataflow.plan import make_plan
from examples.lines_data import rows as said
from examples.nexmark.generate import nexmark
from examples.riotbench.generate import messages, readings, ticks
from examples.rooms_data import lines as room_lines
from examples.urban_sensing import an_hour
from tests.dataflow.hosting.world import World, spread_over

EXAMPLES = Path(__file__).parents[3] / "examples"
HOUSE = nexmark(3_000, seed=4)
CITY = readings("sys", 250, seed=5)


def rooms(schema):
    columns = [line.split(",") for line in list(room_lines(700, 3))[1:] if line.count(",") == 2]
    good = [c for c in columns if c[1].replace(".", "").replace("-", "").isdigit()]
    table = pa.table({"room": [c[0] for c in good], "celsius": [float(c[1]) for c in good], "at": [c[2] for c in good]})
    return table.cast(schema).combine_chunks().to_batches()[0]


def lines(schema):
    made = [{"line": row["line"], "at": row["at"]} for row in said(300, seed=2)]
    return pa.Table.from_pylist(made).cast(schema).combine_chunks().to_batches()[0]


def models(schema):
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "readings.parquet"
        pq.write_table(pa.Table.from_batches([CITY]), table)
        memory = Memory()
        app = load_app(EXAMPLES / "riotbench/train.py", {"table": str(table)})
        tick = app.graph.of_kind("source")[0].draft.outputs[0].schema
        run(app, {"ticks": Generator([from_rows(ticks(1, every_s=120), tick)])}, {"models": memory}, threads=False)
    return from_rows(memory.rows, schema)


FEEDS = {
    "persons": lambda schema: HOUSE["persons"],
    "auctions": lambda schema: HOUSE["auctions"],
    "bids": lambda schema: HOUSE["bids"],
    "messages": lambda schema: messages(CITY, "sys"),
    "readings": lambda schema: an_hour(seed=3).slice(0, 3000) if "dust" in schema.names else rooms(schema),
    "lines": lines,
    "ticks": lambda schema: from_rows(ticks(2, every_s=60), schema),
    "models": models,
}
APPS = [
    *(f"nexmark/q{n}.py" for n in (0, 1, 2, 3, 4, 5, 7, 8)),
    *(f"riotbench/{n}.py" for n in ("etl", "stats", "train", "pred")),
]
APPS += ["hot_rooms.py", "urban_sensing.py", "word_count.py"]
IN_STEP = {"riotbench/pred.py"}  # the latest model to arrive counts: all hosts rest before the next batch is fed
BATCH_ROWS = (97, 700)
IN_ORDER = {"nexmark/q0.py", "nexmark/q1.py", "nexmark/q2.py", "nexmark/q7.py", "word_count.py", "hot_rooms.py"}
CACHE: dict[str, Any] = {}


def prepared(name, folder):
    """The app, its batches by source, and what one process makes of them."""
    if name not in CACHE:
        params = {}
        if name.endswith("train.py"):
            pq.write_table(pa.Table.from_batches([CITY]), folder / "table.parquet")
            params = {"table": str(folder / "table.parquet")}
        app = load_app(EXAMPLES / name, params)
        schemas = {node.name: node.draft.outputs[0].schema for node in app.graph.of_kind("source")}
        feeds = {source: FEEDS[source](schema) for source, schema in sorted(schemas.items(), reverse=True)}
        sinks = {node.name: Memory() for node in app.graph.of_kind("sink")}
        batches = {source: Generator([batch]) for source, batch in feeds.items()}
        if name in IN_STEP:
            one = spread_over(make_plan(app.graph), lambda _: 0)
            rows = fed(name, feeds, make_plan(app.graph), one, seed=0, batch_rows=BATCH_ROWS[0], faults=False)
            CACHE[name] = app, feeds, rows
        else:
            run(app, batches, sinks, threads=False)
            CACHE[name] = app, feeds, {sink: memory.rows for sink, memory in sinks.items()}
        assert any(CACHE[name][2].values()), "an example without rows shows nothing"
    return CACHE[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


def fed(name, feeds, plan, assignment, *, seed, batch_rows, faults=True):
    world = World(plan, assignment, seed=seed, faults=faults, window=Window(messages=5, bytes=64 << 10), boot_ms=7)
    for number, at in enumerate(range(0, max(it.num_rows for it in feeds.values()), batch_rows)):
        for source, batch in sorted(feeds.items()):
            if at < batch.num_rows:
                world.feed(source, Data(batch.slice(at, batch_rows)))
                if name in IN_STEP:
                    world.run()
            if name not in IN_STEP:
                world.feed(source, Token(number + 1))
    return world.end()


def rounded(value):
    """Sums of floats depend on how rows were put together, in their last digits."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    return value


def bag(name, rows):
    if name == "nexmark/q4.py":  # each closing gives the average so far: only the last one does not depend on order
        return {row["category"]: row["average"] for row in rows}
    keys = sorted(rows[0]) if rows else []
    return Counter(tuple(str(rounded(row[key])) for key in keys) for row in rows)


@pytest.mark.parametrize("name", APPS)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_hosts_together_give_what_one_process_gives(name, folder, data):
    app, feeds, expected = prepared(name, folder)
    plan = make_plan(app.graph)
    batch_rows = BATCH_ROWS[0] if name in IN_STEP else data.draw(st.sampled_from(BATCH_ROWS))
    hosts = data.draw(st.integers(1, 5))
    copies = {it.id: data.draw(st.integers(1, 3)) for it in plan.stages if it.nodes[0].draft.stateful}
    where: dict[InstanceId, int] = {}

    def place(id_):
        return where.setdefault(id_, data.draw(st.integers(0, hosts - 1)))

    assignment = spread_over(plan, place, copies=copies)
    seed = data.draw(st.integers(0, 1000))
    found = fed(name, feeds, plan, assignment, seed=seed, batch_rows=batch_rows)
    for sink, rows in expected.items():
        assert bag(name, found[sink]) == bag(name, rows), sink
        if name in IN_ORDER and all(count == 1 for count in copies.values()):
            assert found[sink] == rows
