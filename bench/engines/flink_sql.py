"""Flink SQL in one JVM with parallelism 1, no checkpoints, objects reused.

Its rows are made by its fastest source: NumberSequenceSource counts, and SQL turns each number into the row that the
others read from memory. (Its `datagen` is 25 times slower, and reading text would be measured instead of the job.) That
arithmetic is charged to Flink and to nobody else, which weighs most on W1 and W2.

Timed runs end in `blackhole`. In Flink's favour: W1 and W2 then get ten times the events, since a job costs a second by
itself, and W5 computes the site that the others look up, since a join would cost the stream its event time.
"""

import shutil
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
from pyflink.common import Configuration, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.table import Schema, StreamTableEnvironment

from bench.arithmetic import mix_sql
from bench.data import (
    ACTIVE_PEOPLE,
    AUCTIONS,
    BID_STEP_US,
    BIDDERS,
    EIGHTHS,
    FIRST_ID,
    LINE_STEP_US,
    NAMES,
    NEWS_STEP_US,
    PRICES,
    SENSORS,
    SITES,
    START_US,
    TOO_HOT,
    VOCABULARY,
    WORDS_A_LINE,
)
from bench.engines.serve import Request, serve

TIMES_MORE = 10
WINDOW = "INTERVAL '10' SECOND"
SLIDE = "INTERVAL '2' SECOND"
START = "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) * CAST(1000000 AS BIGINT)"
TYPES = {"name": "STRING", "site": "STRING", "word": "STRING", "mean": "DOUBLE"}
FLINK: list[StreamExecutionEnvironment] = []


def environment() -> StreamExecutionEnvironment:
    if not FLINK:
        configuration = Configuration()
        configuration.set_string("pipeline.object-reuse", "true")
        configuration.set_string("rest.bind-address", "127.0.0.1")
        FLINK.append(StreamExecutionEnvironment.get_execution_environment(configuration))
        FLINK[0].set_parallelism(1)
    return FLINK[0]


def measure(request: Request) -> Any:
    env = environment()
    if not request.wants_rows and request.workload.kind in ("W1", "W2"):
        request.events *= TIMES_MORE
    tables = StreamTableEnvironment.create(env)
    tables.get_config().set("table.local-time-zone", "UTC")
    source = Source(env, tables, request)
    query = JOBS[request.workload.kind](source, request)
    columns = ", ".join(f"`{it}` {TYPES.get(it, 'BIGINT')}" for it in request.workload.columns)
    folder = request.scratch / "flink"
    shutil.rmtree(folder, ignore_errors=True)
    files = f"'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv'"
    where = files if request.wants_rows else "'connector' = 'blackhole'"
    tables.execute_sql(f"CREATE TEMPORARY TABLE `out` ({columns}) WITH ({where})")
    request.begin()
    tables.execute_sql(f"INSERT INTO `out` {query}").wait()
    request.end()
    return _read(request, folder) if request.wants_rows else None


def _read(request: Request, folder: Any) -> Any:
    names = list(request.workload.columns)
    options = pacsv.ReadOptions(column_names=names)
    files = [it for it in folder.rglob("*") if it.is_file() and it.stat().st_size]
    return pa.concat_tables([pacsv.read_csv(it, read_options=options) for it in files])


class Source:
    """Views over counting sources: `n` is the number of the event, `ts` its time."""

    def __init__(self, env: StreamExecutionEnvironment, tables: StreamTableEnvironment, request: Request) -> None:
        self._env = env
        self._tables = tables
        self._salt = request.seed * 100

    def mix(self, salt: int, n: str = "n") -> str:
        return mix_sql(n, self._salt + salt)

    def add(self, name: str, count: int, step_us: int, columns: str, *, n: str = "f0") -> None:
        numbers = self._env.from_source(
            NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), f"count {name}"
        )
        schema = (
            Schema.new_builder()
            .column("f0", "BIGINT")
            .column_by_expression("n", n)
            .column_by_expression("ts", f"TO_TIMESTAMP_LTZ(({START_US} + ({n}) * {step_us}) / 1000, 3)")
            .watermark("ts", "ts - INTERVAL '0.001' SECOND")
            .build()
        )
        self._tables.create_temporary_view(f"{name}_numbers", self._tables.from_data_stream(numbers, schema))
        self._tables.execute_sql(f"CREATE TEMPORARY VIEW {name} AS SELECT {columns}, ts FROM {name}_numbers")


def _bids(source: Source, events: int) -> None:
    source.add(
        "bids",
        events,
        BID_STEP_US,
        f"{FIRST_ID} + MOD({source.mix(1)}, {AUCTIONS}) AS auction,"
        f" {FIRST_ID} + MOD({source.mix(2)}, {BIDDERS}) AS bidder,"
        f" 100 + MOD({source.mix(3)}, {PRICES}) AS price,"
        f" {START_US} + n * {BID_STEP_US} AS `at`",
    )


def pass_through(source: Source, request: Request) -> str:
    _bids(source, request.events)
    return "SELECT auction, bidder, price, `at` FROM bids"


def every_123rd(source: Source, request: Request) -> str:
    _bids(source, request.events)
    return "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0"


def joined(source: Source, request: Request) -> str:
    people = -(-request.events // 4)
    source.add(
        "persons",
        people,
        NEWS_STEP_US,
        f"{FIRST_ID} + n / 4 AS id, 'name-' || CAST(MOD({source.mix(6)}, {NAMES}) AS STRING) AS name",
        n="f0 * 4",
    )
    source.add(
        "auctions",
        request.events - people,
        NEWS_STEP_US,
        f"{FIRST_ID} + n AS auction,"
        f" {FIRST_ID} + GREATEST(n / 4 - MOD({source.mix(7)}, {ACTIVE_PEOPLE}), CAST(0 AS BIGINT)) AS seller",
        n="f0 / 3 * 4 + MOD(f0, 3) + 1",
    )
    sides = [f"(SELECT * FROM TABLE(TUMBLE(TABLE {it}, DESCRIPTOR(ts), {WINDOW})))" for it in ("persons", "auctions")]
    return (
        f"SELECT p.id, p.name, a.auction, {START.replace('window_start', 'p.window_start')} FROM {sides[0]} p"
        f" JOIN {sides[1]} a ON p.id = a.seller"
        " AND p.window_start = a.window_start AND p.window_end = a.window_end"
    )


def averages(source: Source, request: Request) -> str:
    keys = request.workload.keys
    source.add(
        "readings",
        request.events,
        BID_STEP_US,
        f"MOD({source.mix(4)}, {keys}) AS `key`, MOD({source.mix(5)}, {PRICES}) AS `value`",
    )
    return (
        f"SELECT `key`, {START}, AVG(CAST(`value` AS DOUBLE)), MAX(`value`)"
        f" FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), {WINDOW})) GROUP BY `key`, window_start, window_end"
    )


def site_means(source: Source, request: Request) -> str:
    eighths = f"MOD({source.mix(9)}, {EIGHTHS})"
    source.add(
        "lines",
        request.events,
        NEWS_STEP_US,
        f"'s' || CAST(MOD({source.mix(8)}, {SENSORS}) AS STRING) || ',' || CAST({eighths} / 8 AS STRING) || '.' ||"
        f" LPAD(CAST(MOD({eighths}, 8) * 125 AS STRING), 3, '0') || ',' ||"
        f" CAST(MOD({source.mix(10)}, 100) AS STRING) AS line",
    )
    parsed = "SELECT SPLIT_INDEX(line, ',', 0) AS sensor, CAST(SPLIT_INDEX(line, ',', 1) AS DOUBLE) AS celsius, ts"
    site = f"'site-' || CAST(MOD(CAST(SUBSTRING(sensor, 2) AS BIGINT), {SITES}) AS STRING) AS site"
    source._tables.execute_sql(
        f"CREATE TEMPORARY VIEW placed AS SELECT {site}, celsius, ts FROM ({parsed} FROM lines)"
        f" WHERE celsius < {TOO_HOT}"
    )
    return (
        f"SELECT site, {START}, AVG(celsius) FROM TABLE(HOP(TABLE placed, DESCRIPTOR(ts), {SLIDE}, {WINDOW}))"
        " GROUP BY site, window_start, window_end"
    )


def words(source: Source, request: Request) -> str:
    each = [
        f"'w' || CAST(MOD({source.mix(11, f'(n * {WORDS_A_LINE} + {at})')}, {VOCABULARY}) AS STRING)"
        for at in range(WORDS_A_LINE)
    ]
    source.add("lines", request.events // WORDS_A_LINE, LINE_STEP_US, f"CONCAT_WS(' ', {', '.join(each)}) AS line")
    source._tables.execute_sql(
        "CREATE TEMPORARY VIEW words AS SELECT t.word, ts FROM lines CROSS JOIN UNNEST(SPLIT(line, ' ')) AS t (word)"
    )
    return (
        f"SELECT word, {START}, COUNT(*) FROM TABLE(TUMBLE(TABLE words, DESCRIPTOR(ts), {WINDOW}))"
        " GROUP BY word, window_start, window_end"
    )


JOBS: dict[str, Any] = {
    "W1": pass_through,
    "W2": every_123rd,
    "W3": joined,
    "W4": averages,
    "W5": site_means,
    "W6": words,
}


if __name__ == "__main__":
    serve(measure)
