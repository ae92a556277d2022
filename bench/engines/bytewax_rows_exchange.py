"""Bytewax as its guide writes it, in two processes: W1 and W2 behind `redistribute`, W4 by its key.

`redistribute` draws a worker for each row, and keys are hashed over both, so half of the rows cross the wire.
"""

import json
import sys
from typing import Any

import bytewax.operators as op
import pyarrow as pa

from bench.engines.bytewax_pair import run_first, run_second, second_table
from bench.engines.bytewax_rows import BATCH, JOBS
from bench.engines.serve import Request, serve
from bench.workloads import ALL


def built(kind: str) -> Any:
    build = JOBS[kind][1]
    return build if kind == "W4" else lambda stream: build(op.redistribute("exchange", stream))


def tabled(kind: str) -> Any:
    result, columns = JOBS[kind][2], ALL[kind].columns
    types = {"mean": pa.float64()}
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in columns])
    return lambda kept: pa.Table.from_pylist(
        [dict(zip(columns, row, strict=True)) for row in result(kept)], schema=schema
    )


def measure(request: Request) -> Any:
    kind = request.workload.kind
    items = request.prepare(lambda: JOBS[kind][0](request.load()))
    kept = run_first("bench.engines.bytewax_rows_exchange", items, request, built(kind), batch=BATCH)
    return pa.concat_tables([tabled(kind)(kept), second_table(request)])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        told = json.loads(sys.argv[1])
        run_second(told, built(told["kind"]), tabled(told["kind"]))
    else:
        serve(measure)
