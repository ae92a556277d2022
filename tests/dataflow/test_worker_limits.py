"""An app from a bundle runs its Python in worker processes, and what it does there is its own undoing only."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from dataflow import AppError
from dataflow.batches import from_rows
from dataflow.bundles.bundle import Bundle
from dataflow.bundles.importing import load_bundle
from dataflow.bundles.limits import Limits
from dataflow.bundles.sealing import trusted_here
from dataflow.engine.executor import Executor
from dataflow.engine.workers import with_bundle_workers
from dataflow.messages import Data, End
from dataflow.plan import make_plan
from dataflow.schema import parse_schema

APP = """
import os, time
from dataflow import App, col
import helpers
app = App("limited")
kept = []
def work(row):
    {body}
out = app.source("in", schema={{"x": "int64"}}).{kind}(work, schema={{"x": "int64"}}, **{options})
out.filter(col("x") >= 0).sink("out")
"""
HELPERS = "def add(x): return x + 1000"


def bundle_of(body, kind="map", options=None, **limits):
    text = APP.format(body=body, kind=kind, options=options or {})
    return Bundle("my_app.py", {"my_app.py": text, "helpers.py": HELPERS}, limits=Limits(**limits))


@contextmanager
def running(bundle):
    verified = trusted_here(bundle)
    make, workers = with_bundle_workers(verified)
    try:
        yield Executor(make_plan(load_bundle(verified).graph), make=make), workers
    finally:
        for each in workers:
            each.close()


def rows(count):
    return Data(from_rows([{"x": n} for n in range(count)], parse_schema({"x": "int64"})))


def result(executor, *, count=600):
    arrivals = [*executor.feed("in", rows(count)), *executor.feed("in", End())]
    return [row["x"] for _, message in arrivals if isinstance(message, Data) for row in message.batch.to_pylist()]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_workers_build_the_app_from_the_bundle_and_keep_the_order(parallelism):
    bundle = bundle_of("print('noise'); return {'x': helpers.add(row['x'])}", options={"parallelism": parallelism})
    with running(bundle) as (executor, workers):
        assert len(workers) == 1
        assert result(executor) == [n + 1000 for n in range(600)]


def test_a_function_of_batches_runs_in_a_worker_too():
    body = "return {'x': [helpers.add(x) for x in row.column('x').to_pylist()]}"
    with running(bundle_of(body, kind="map_batches")) as (executor, workers):
        assert len(workers) == 1 and result(executor) == [n + 1000 for n in range(600)]


ENDLESS = [
    ("while True: kept.append(bytearray(1 << 20))", {"memory_mib": 64}, "needed more than 64 MiB of memory"),
    ("while True: kept.append(str(len(kept)))", {"memory_mib": 32}, "needed more than 32 MiB of memory"),
    ("while True: pass", {"batch_cpu_s": 1}, "used more than 1 s of CPU for one batch"),
    ("return {'x': len(str(7 ** (10 ** 9)))}", {"batch_cpu_s": 1}, "used more than 1 s of CPU for one batch"),
    ("time.sleep(10 ** 6)", {"batch_wall_s": 1}, "did not come back within 1 s"),
    ("os._exit(3)", {}, "ended its worker process with exit code 3"),
    ("os.abort()", {}, "ended its worker process with SIGABRT"),
]


@pytest.mark.parametrize(("body", "limits", "words"), ENDLESS, ids=[words[:40] for *_, words in ENDLESS])
def test_a_function_without_bounds_ends_in_a_sentence_with_its_line(body, limits, words):
    with running(bundle_of(body, **limits)) as (executor, _), pytest.raises(AppError) as caught:
        result(executor)
    assert words in str(caught.value)
    assert str(caught.value).startswith("my_app.py:9: map work ")


def test_a_function_of_batches_without_bounds():
    bundle = bundle_of("while True: kept.append(bytearray(1 << 20))", kind="map_batches", memory_mib=64)
    with running(bundle) as (executor, _), pytest.raises(AppError, match="map_batches work needed more than 64 MiB"):
        result(executor)


def test_cpu_is_counted_for_each_batch_and_not_for_a_life():
    """Six batches of half a second each, with one second for each of them."""
    body = "end = time.process_time() + 0.5\n    while time.process_time() < end: pass\n    return row"
    with running(bundle_of(body, batch_cpu_s=1)) as (executor, _):
        for _ in range(6):
            executor.feed("in", rows(1))
        assert executor.feed("in", End())


def test_what_fails_while_the_app_is_built_in_a_worker_is_told():
    text = APP.format(body="return row", kind="map", options={}) + "import os\nif os.getpid() != {pid}: 1 / 0\n"
    bundle = Bundle("my_app.py", {"my_app.py": text.replace("{pid}", str(os.getpid())), "helpers.py": HELPERS})
    with running(bundle) as (_, workers), pytest.raises(AppError, match=r"my_app\.py:12: the app raises ZeroDivision"):
        workers[0].wait_until_ready()


def test_a_worker_whose_engine_never_greets_ends_by_itself():
    words = [sys.executable, "-m", "dataflow.engine.worker_main"]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
