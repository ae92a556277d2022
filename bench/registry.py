"""Which engines there are, what each can do, and how each is treated."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("W1", "W2", "W3", "W4", "W5", "W6")


@dataclass(frozen=True, slots=True)
class Engine:
    name: str
    module: str
    environment: str | None  # a line of peers.txt; None is the environment we run in
    kinds: tuple[str, ...] = KINDS
    stays: bool = False
    """One process for all runs: what takes half a minute to start is started once."""
    throws_rows_away: bool = False
    """Timed runs end in the engine's null sink, so a run of its own checks the rows."""
    needs_java: bool = False
    latency: str | None = None  # module that measures it


ENGINES = {
    each.name: each
    for each in (
        Engine("shoal", "bench.engines.shoal", None, latency="bench.engines.shoal_latency"),
        Engine("polars", "bench.engines.polars_loop", "polars"),
        Engine("bytewax", "bench.engines.bytewax_rows", "bytewax", latency="bench.engines.bytewax_latency"),
        Engine("bytewax-arrow", "bench.engines.bytewax_arrow", "bytewax", kinds=("W1", "W2", "W4")),
        Engine(
            "pathway",
            "bench.engines.pathway_static",
            "pathway",
            throws_rows_away=True,
            latency="bench.engines.pathway_latency",
        ),
        Engine("pyspark", "bench.engines.spark_sql", "pyspark", stays=True, throws_rows_away=True, needs_java=True),
        Engine("flink", "bench.engines.flink_sql", "flink", stays=True, throws_rows_away=True, needs_java=True),
    )
}
OURS = "shoal"
YARDSTICK = "polars"
"""It is no stream processor: ratios to it are told, but it is nobody's rival."""
