"""Shoal as a user runs it: `dataflow.local.run` with threads, a source in memory and a sink that keeps its rows.

The end is when `run` returns, with every thread joined.
"""

from typing import Any

from bench.apps import app_of
from bench.connectors import FromMemory, Keep
from bench.engines.serve import Request, serve
from dataflow.local import run


def measure(request: Request) -> Any:
    streams = request.load()
    kept = Keep()
    sources = {name: FromMemory(table, request.begin) for name, table in streams.items()}
    run(app_of(request.workload), sources, {"out": kept})
    request.end()
    return kept.table()


if __name__ == "__main__":
    serve(measure)
