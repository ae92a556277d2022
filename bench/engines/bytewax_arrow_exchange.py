"""Bytewax with Arrow batches for items, in two processes: all work is behind one key, which lives on the second.

So every batch crosses the wire once, pickled by bytewax. What the job gives stays where it is.
"""

import json
import sys
from typing import Any

import bytewax.operators as op
import pyarrow as pa

from bench.connectors import BATCH_ROWS
from bench.engines.bytewax_arrow import Averages, _filtered
from bench.engines.bytewax_pair import run_first, run_second, second_table
from bench.engines.serve import Request, serve

KEY = "a"
"""Bytewax hashes keys over workers; this one falls to the second. `measure` looks whether it did."""


def built(kind: str) -> Any:
    def on_batch(state: Any, batch: Any) -> tuple[Any, list[Any]]:
        if kind == "W4":
            state = state or Averages()
            return state, state.on_batch(batch)
        if batch is None:
            return None, []
        return True, [batch if kind == "W1" else _filtered(batch)]

    def build(stream: Any) -> Any:
        keyed = op.key_on("one place", stream, lambda _: KEY)
        return op.map("rows", op.stateful_flat_map("job", keyed, on_batch), lambda it: it[1])

    return build


def _copied(batch: Any) -> Any:
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def tabled(kept: list[Any]) -> Any:
    return pa.concat_tables([pa.Table.from_batches([it]) if isinstance(it, pa.RecordBatch) else it for it in kept])


def measure(request: Request) -> Any:
    (table,) = request.load().values()
    # A slice would be pickled with all of its table: each batch gets buffers of its own.
    items = request.prepare(lambda: [*map(_copied, table.to_batches(max_chunksize=BATCH_ROWS)), None])
    build = built(request.workload.kind)
    kept = run_first("bench.engines.bytewax_arrow_exchange", items, request, build, batch=1)
    if kept:
        raise RuntimeError("rows stayed in the first process: no exchange was measured")
    return second_table(request)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        told = json.loads(sys.argv[1])
        run_second(told, built(told["kind"]), tabled)
    else:
        serve(measure)
