"""SenML, the JSON of sensors: a base time and named values.

>>> text = '{"bt":5,"e":[{"n":"source","sv":"pier"},{"n":"dust","u":"per","v":"1.5"}]}'
>>> fields(text)
{'source': 'pier', 'dust': 1.5}
>>> write({"source": "pier", "dust": 1.5, "noise": None}, time_ms=5)
'{"bt":5,"e":[{"n":"source","sv":"pier"},{"n":"dust","v":"1.5"}]}'

Numbers travel as text, as RIoTBench has them. A broken message raises; the engine makes it a dead letter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from typing import Any

from riot.datasets import Dataset

Row = dict[str, Any]
OBSERVATION = {"id": "int64", "at": "timestamp[ms]", "sensor": "string", "kind": "string", "value": "float64"}
MESSAGE = {"id": "int64", "at": "timestamp[ms]", "senml": "string"}


def fields(senml: str) -> dict[str, str | float]:
    """Name and value of each entry; numbers as floats."""
    return {entry["n"]: entry["sv"] if "sv" in entry else float(entry["v"]) for entry in json.loads(senml)["e"]}


def write(values: Mapping[str, str | float | None], *, time_ms: int) -> str:
    """A message of these values; what is not known is not in it."""
    known = [(name, value) for name, value in values.items() if value is not None]
    entries = [{"n": name, "sv" if isinstance(value, str) else "v": str(value)} for name, value in known]
    return json.dumps({"bt": time_ms, "e": entries}, separators=(",", ":"))


def observations_of(dataset: Dataset) -> Callable[[Row], Iterator[Row]]:
    """A function that cuts a message into one row for each kind of observation it has."""

    def observations(row: Row) -> Iterator[Row]:
        found = fields(row["senml"])
        for kind in dataset.kinds:
            if kind in found:
                sensor = found[dataset.source]
                yield {"id": row["id"], "at": row["at"], "sensor": sensor, "kind": kind, "value": found[kind]}

    return observations


def reading_of(dataset: Dataset) -> Callable[[Row], Row]:
    """A function that makes a message one row with a column for each kind; all must be there."""

    def reading(row: Row) -> Row:
        found = fields(row["senml"])
        values = {kind: found[kind] for kind in dataset.kinds}
        return {"id": row["id"], "at": row["at"], "sensor": found[dataset.source], **values}

    return reading


def message_of(dataset: Dataset, *extra: str) -> Callable[[Row], Row]:
    """The way back: a row of columns as a message."""

    def message(row: Row) -> Row:
        values = {dataset.source: row["sensor"], **{name: row[name] for name in (*dataset.kinds, *extra)}}
        time_ms = round(row["at"].replace(tzinfo=UTC).timestamp() * 1000)
        return {"id": row["id"], "at": row["at"], "senml": write(values, time_ms=time_ms)}

    return message
