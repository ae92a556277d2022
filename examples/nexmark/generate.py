"""The three streams of NEXMark, an auction house, made at the speed of numpy.

Of every fifty events the first is a person, the next three are auctions, the others bids. Half of the bids go to
the hot auction and the rest to the last 100; three quarters of the sellers and of the bidders are the hot person
and the rest are among the last 1,000. Every event has an instant of its own, in microseconds.

The same arguments give the same rows. No query imports this file; it feeds them:

    python -m examples.nexmark.generate house          # a folder of three Parquet files, a minute of events
    peer launch --local examples/nexmark/q5.py --source bids=file:house/bids.parquet

>>> streams = nexmark(1000, seed=7)
>>> {name: batch.num_rows for name, batch in streams.items()}
{'persons': 20, 'auctions': 60, 'bids': 920}
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataflow.batches import AnyArray, Ints
from dataflow.schema import parse_schema

PERSONS = parse_schema(
    {"id": "int64", "name": "string", "city": "string", "state": "string", "at": "timestamp[us]"},
)
AUCTIONS = parse_schema(
    {"id": "int64", "seller": "int64", "category": "int64", "at": "timestamp[us]", "expires": "timestamp[us]"},
)
BIDS = parse_schema({"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"})

ROUND, AUCTIONS_A_ROUND = 50, 3
FIRST_ID = 1000
CATEGORIES = range(10, 15)
IN_FLIGHT, ACTIVE_PEOPLE, HOT_EVERY = 100, 1000, 100
START_US = 1_600_000_000_000_000
SECOND_US = 1_000_000

NAMES = [f"{first} {last}" for first in ("Ada", "Bo", "Cy", "Di", "Eve") for last in ("Ash", "Birch", "Elm", "Oak")]
CITIES = {"Portland": "OR", "Boise": "ID", "Fresno": "CA", "Phoenix": "AZ", "Seattle": "WA", "Cheyenne": "WY"}


def nexmark(events: int, *, seed: int, events_per_second: int = 1000) -> dict[str, pa.RecordBatch]:
    """The persons, auctions and bids among the first `events` events, each in order of time."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(events, dtype=np.int64)
    place = numbers % ROUND
    step_us = SECOND_US // events_per_second
    persons = numbers[place == 0]
    auctions = numbers[(place >= 1) & (place <= AUCTIONS_A_ROUND)]
    bids = numbers[place > AUCTIONS_A_ROUND]
    return {
        "persons": _persons(rng, persons, step_us),
        "auctions": _auctions(rng, auctions, step_us),
        "bids": _bids(rng, bids, step_us),
    }


def sliced(batch: pa.RecordBatch, rows: int) -> list[pa.RecordBatch]:
    """A stream as batches of so many rows."""
    return [batch.slice(at, rows) for at in range(0, batch.num_rows, rows)]


def _persons(rng: np.random.Generator, numbers: Ints, step_us: int) -> pa.RecordBatch:
    city = rng.integers(len(CITIES), size=len(numbers))
    columns = [
        FIRST_ID + numbers // ROUND,
        _choose(NAMES, rng.integers(len(NAMES), size=len(numbers))),
        _choose(list(CITIES), city),
        _choose(list(CITIES.values()), city),
        START_US + numbers * step_us,
    ]
    return _batch(columns, PERSONS)


def _auctions(rng: np.random.Generator, numbers: Ints, step_us: int) -> pa.RecordBatch:
    opened_us = START_US + numbers * step_us
    # As long as it takes to open IN_FLIGHT others, on average: so about that many are open at a time.
    length_us = IN_FLIGHT * ROUND // AUCTIONS_A_ROUND * step_us
    columns = [
        FIRST_ID + _last_auction(numbers),
        FIRST_ID + _hot_or_recent(rng, numbers // ROUND, hot_share=0.75, recent=ACTIVE_PEOPLE),
        rng.integers(CATEGORIES.start, CATEGORIES.stop, size=len(numbers)),
        opened_us,
        opened_us + 1 + rng.integers(2 * length_us, size=len(numbers)),
    ]
    return _batch(columns, AUCTIONS)


def _bids(rng: np.random.Generator, numbers: Ints, step_us: int) -> pa.RecordBatch:
    columns = [
        FIRST_ID + _hot_or_recent(rng, _last_auction(numbers), hot_share=0.5, recent=IN_FLIGHT),
        FIRST_ID + _hot_or_recent(rng, numbers // ROUND, hot_share=0.75, recent=ACTIVE_PEOPLE),
        np.round(100 * 10 ** (6 * rng.random(len(numbers)))).astype(np.int64),
        START_US + numbers * step_us,
    ]
    return _batch(columns, BIDS)


def _last_auction(numbers: Ints) -> AnyArray:
    """How many auctions were opened before the latest one at each event that is no person."""
    return numbers // ROUND * AUCTIONS_A_ROUND + np.minimum(numbers % ROUND, AUCTIONS_A_ROUND) - 1


def _hot_or_recent(rng: np.random.Generator, last: AnyArray, *, hot_share: float, recent: int) -> AnyArray:
    """The hot one changes with every HOT_EVERY new ones; the others are uniform over the last `recent`."""
    hot = last // HOT_EVERY * HOT_EVERY
    oldest = np.maximum(last - recent + 1, 0)
    return np.where(rng.random(len(last)) < hot_share, hot, rng.integers(oldest, last + 1))


def _choose(words: Sequence[str], at: AnyArray) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(at))


def _batch(columns: Sequence[object], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def save(folder: Path, events: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, batch in nexmark(events, seed=1).items():
        pq.write_table(pa.Table.from_batches([batch]), folder / f"{name}.parquet")


if __name__ == "__main__":
    save(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60_000)
