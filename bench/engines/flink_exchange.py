"""Flink SQL on two TaskManagers with a slot each, in one JVM: rows between them go over TCP on loopback, without TLS.

Both TaskManagers make rows, compute and write. W4 is exchanged by its key. W1 and W2 are by the first column in front
of the sink (a keyed shuffle that Flink is told to force), so half of the rows cross the wire once. In Flink's
favour: W2 is filtered before that, so its exchange is nearly nothing.
"""

import shutil
from typing import Any

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import ExplainDetail, StreamTableEnvironment

from bench.engines import flink_sql
from bench.engines.serve import Request, serve

TIMES_MORE = 5


def environment() -> StreamExecutionEnvironment:
    if not flink_sql.FLINK:
        configuration = Configuration()
        for name, value in {
            "pipeline.object-reuse": "true",
            "rest.bind-address": "127.0.0.1",
            "minicluster.number-of-taskmanagers": "2",
            "taskmanager.numberOfTaskSlots": "1",
            "taskmanager.memory.network.min": "128mb",
            "taskmanager.memory.network.max": "128mb",
        }.items():
            configuration.set_string(name, value)
        flink_sql.FLINK.append(StreamExecutionEnvironment.get_execution_environment(configuration))
        flink_sql.FLINK[0].set_parallelism(2)
    return flink_sql.FLINK[0]


def measure(request: Request) -> Any:
    env = environment()
    if not request.wants_rows and request.workload.kind in ("W1", "W2"):
        request.events *= TIMES_MORE
    tables = StreamTableEnvironment.create(env)
    tables.get_config().set("table.local-time-zone", "UTC")
    tables.get_config().set("table.exec.sink.keyed-shuffle", "FORCE")
    query = flink_sql.JOBS[request.workload.kind](flink_sql.Source(env, tables, request), request)
    names = request.workload.columns
    columns = ", ".join(f"`{it}` {flink_sql.TYPES.get(it, 'BIGINT')}" for it in names)
    key = f", PRIMARY KEY (`{names[0]}`) NOT ENFORCED"
    folder = request.scratch / "flink"
    shutil.rmtree(folder, ignore_errors=True)
    files = f"'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv'"
    where = files if request.wants_rows else "'connector' = 'blackhole'"
    tables.execute_sql(f"CREATE TEMPORARY TABLE `out` ({columns}{key}) WITH ({where})")
    insert = f"INSERT INTO `out` {query}"
    if "HASH" not in tables.explain_sql(insert, ExplainDetail.JSON_EXECUTION_PLAN):
        raise RuntimeError("Flink planned no exchange")
    request.begin()
    tables.execute_sql(insert).wait()
    request.end()
    return flink_sql._read(request, folder) if request.wants_rows else None


if __name__ == "__main__":
    serve(measure)
