"""Spark Structured Streaming: SQL expressions on two local cores, all rows in one large micro-batch.

Its rows come from Parquet files, its best source; timed runs end in its `noop` sink. One session serves all runs, so
the JVM is warm. In append mode a window is told once the watermark has passed it, so one row of the far
future comes last.
"""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from bench.data import TOO_HOT, sites
from bench.engines.serve import Request, serve

FILES = 2  # one for each core
FUTURE_US = 4_000_000_000_000_000
NOBODY = {"key": -1, "value": 0, "line": "s0,0.000,0"}
SESSION: list[SparkSession] = []


def session() -> SparkSession:
    if not SESSION:
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "4g",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
        }
        builder = SparkSession.builder.master("local[2]").appName("bench")
        for name, value in settings.items():
            builder = builder.config(name, value)
        SESSION.append(builder.getOrCreate())
        SESSION[0].sparkContext.setLogLevel("ERROR")
    return SESSION[0]


def measure(request: Request) -> Any:
    spark = session()
    folder = request.scratch / "spark"
    shutil.rmtree(folder, ignore_errors=True)
    request.prepare(lambda: _write(request, folder))
    streams = {it.name: _read(spark, it) for it in sorted((folder / "in").iterdir())}
    found = JOBS[request.workload.kind](spark, **streams)
    writer = found.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))
    files = writer.format("parquet").option("path", str(folder / "out"))
    writer = files if request.wants_rows else writer.format("noop")
    request.begin()
    writer.start().awaitTermination()
    request.end()
    if not request.wants_rows:
        return None
    parts = [pq.read_table(it) for it in (folder / "out").glob("*.parquet") if it.stat().st_size]
    return pa.concat_tables(parts)


def _write(request: Request, folder: Path) -> None:
    for name, table in request.load().items():
        at = table.column("at").cast(pa.timestamp("us", tz="UTC"))
        table = table.set_column(table.schema.get_field_index("at"), "at", at)
        if request.workload.kind in ("W4", "W5", "W6"):
            last = [{**NOBODY, "at": FUTURE_US}]
            table = pa.concat_tables([table, pa.Table.from_pylist(last, schema=table.schema)])
        (folder / "in" / name).mkdir(parents=True)
        step = -(-table.num_rows // FILES)
        for part in range(FILES):
            pq.write_table(table.slice(part * step, step), folder / "in" / name / f"{part}.parquet")


def _read(spark: SparkSession, folder: Path) -> Any:
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES).parquet(str(folder))


def _start_us(window: str = "window") -> Any:
    return f.unix_micros(f.col(f"{window}.start")).alias("window_start")


def pass_through(_: SparkSession, bids: Any) -> Any:
    return bids


def every_123rd(_: SparkSession, bids: Any) -> Any:
    return bids.where("auction % 123 = 0").select("auction", "price")


def joined(_: SparkSession, persons: Any, auctions: Any) -> Any:
    left = persons.withWatermark("at", "0 seconds").select("id", "name", f.window("at", "10 seconds").alias("w"))
    right = auctions.withWatermark("at", "0 seconds").select(
        "auction", "seller", f.window("at", "10 seconds").alias("v")
    )
    pairs = left.join(right, (left.id == right.seller) & (left.w == right.v))
    return pairs.select("id", "name", "auction", _start_us("w"))


def averages(_: SparkSession, readings: Any) -> Any:
    groups = readings.withWatermark("at", "0 seconds").groupBy("key", f.window("at", "10 seconds"))
    return groups.agg(f.avg("value").alias("mean"), f.max("value").alias("highest")).select(
        "key", _start_us(), "mean", "highest"
    )


def site_means(spark: SparkSession, lines: Any) -> Any:
    table = spark.createDataFrame(sites().to_pylist())
    parts = f.split("line", ",")
    parsed = lines.select(parts[0].alias("sensor"), parts[1].cast("double").alias("celsius"), "at")
    placed = parsed.where(f.col("celsius") < TOO_HOT).join(f.broadcast(table), "sensor", "left")
    groups = placed.withWatermark("at", "0 seconds").groupBy("site", f.window("at", "10 seconds", "2 seconds"))
    return groups.agg(f.avg("celsius").alias("mean")).select("site", _start_us(), "mean")


def words(_: SparkSession, lines: Any) -> Any:
    each = lines.select(f.explode(f.split("line", " ")).alias("word"), "at")
    groups = each.withWatermark("at", "0 seconds").groupBy("word", f.window("at", "10 seconds"))
    return groups.agg(f.count("*").alias("count")).select("word", _start_us(), "count")


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
