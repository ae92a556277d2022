"""The input of every workload, made once and kept as Arrow files.

The same workload, number of events and seed give the same rows; a smaller number gives a prefix of them. Event times
rise by a fixed step, so there are no late rows: engines differ in what they do with those, and here all must agree.
Values are integers or eighths, so that sums and means are exact in any order of adding.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.arithmetic import mix
from bench.workloads import Workload

FORMAT = 1
"""Raise it when rows change: cached files of the old kind are then left alone."""
START_US = 1_600_000_000_000_000  # a multiple of ten seconds: windows begin with the first row
WINDOW_US = 10_000_000
SLIDE_US = 2_000_000
BID_STEP_US = 10
NEWS_STEP_US = 100  # persons and auctions; lines of sensors
LINE_STEP_US = 1_000
AUCTIONS, BIDDERS, PRICES = 10_000, 1_000, 1_000_000
FIRST_ID, ACTIVE_PEOPLE, NAMES = 1_000, 1_000, 1_000
SENSORS, SITES, EIGHTHS = 1_000, 50, 8_000
TOO_HOT = 900.0
WORDS_A_LINE, VOCABULARY = 10, 10_000
FRACTIONS = ("000", "125", "250", "375", "500", "625", "750", "875")

Streams = dict[str, Any]  # name -> pa.Table


def streams(workload: Workload, events: int, *, seed: int) -> Streams:
    """The input tables of a workload."""
    salt = seed * 100
    match workload.kind:
        case "W1" | "W2":
            return {"bids": _bids(np.arange(events), salt)}
        case "W3":
            return _persons_and_auctions(np.arange(events), salt)
        case "W4":
            return {"readings": _readings(np.arange(events), workload.keys, salt)}
        case "W5":
            return {"lines": _sensor_lines(np.arange(events), salt)}
        case "W6":
            return {"lines": _word_lines(np.arange(events // WORDS_A_LINE), salt)}
    raise AssertionError(workload.kind)


def sites() -> Any:
    """The static table of W5: where each sensor stands."""
    names = [f"s{n}" for n in range(SENSORS)]
    return pa.table({"sensor": names, "site": [f"site-{n % SITES}" for n in range(SENSORS)]})


def folder_of(cache: Path, workload: Workload, events: int, *, seed: int) -> Path:
    """Where the rows are kept; made if they are not there yet."""
    keys = f"-{workload.keys}keys" if workload.keys else ""
    kind = "W1" if workload.kind == "W2" else workload.kind
    folder = cache / "data" / f"v{FORMAT}-{kind}{keys}-{events}-seed{seed}"
    if folder.is_dir():
        return folder
    # Another process may be making the same: whoever is done first wins, and both made equal rows.
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    draft.mkdir(parents=True, exist_ok=True)
    for name, table in streams(workload, events, seed=seed).items():
        with pa.OSFile(str(draft / f"{name}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    if folder.is_dir():
        for each in draft.iterdir():
            each.unlink()
        draft.rmdir()
    else:
        draft.rename(folder)
    return folder


def load(folder: Path) -> Streams:
    """All streams of a folder, in memory."""
    found: Streams = {}
    for file in sorted(folder.glob("*.arrow")):
        with pa.OSFile(str(file), "rb") as source:
            found[file.stem] = pa.ipc.open_file(source).read_all().combine_chunks()
    return found


def _bids(n: Any, salt: int) -> Any:
    return pa.table(
        {
            "auction": FIRST_ID + mix(n, salt + 1) % AUCTIONS,
            "bidder": FIRST_ID + mix(n, salt + 2) % BIDDERS,
            "price": 100 + mix(n, salt + 3) % PRICES,
            "at": _instants(n, BID_STEP_US),
        }
    )


def _readings(n: Any, keys: int, salt: int) -> Any:
    return pa.table(
        {
            "key": mix(n, salt + 4) % keys,
            "value": mix(n, salt + 5) % PRICES,
            "at": _instants(n, BID_STEP_US),
        }
    )


def _persons_and_auctions(n: Any, salt: int) -> Streams:
    """Of four events one is a person, the others are auctions of one of the last people."""
    people, sales = n[n % 4 == 0], n[n % 4 != 0]
    persons = {
        "id": FIRST_ID + people // 4,
        "name": _texts("name-", mix(people, salt + 6) % NAMES, NAMES),
        "at": _instants(people, NEWS_STEP_US),
    }
    auctions = {
        "auction": FIRST_ID + sales,
        "seller": FIRST_ID + np.maximum(sales // 4 - mix(sales, salt + 7) % ACTIVE_PEOPLE, 0),
        "at": _instants(sales, NEWS_STEP_US),
    }
    return {"persons": pa.table(persons), "auctions": pa.table(auctions)}


def _sensor_lines(n: Any, salt: int) -> Any:
    """`s17,23.125,40`: sensor, celsius, humidity."""
    sensor = _texts("s", mix(n, salt + 8) % SENSORS, SENSORS)
    eighths = mix(n, salt + 9) % EIGHTHS
    celsius = pa.array([f"{it // 8}.{FRACTIONS[it % 8]}" for it in range(EIGHTHS)]).take(pa.array(eighths))
    humidity = _texts("", mix(n, salt + 10) % 100, 100)
    return pa.table(
        {
            "line": pc.binary_join_element_wise(sensor, celsius, humidity, ","),
            "at": _instants(n, NEWS_STEP_US),
        }
    )


def _word_lines(n: Any, salt: int) -> Any:
    words = [_texts("w", mix(n * WORDS_A_LINE + at, salt + 11) % VOCABULARY, VOCABULARY) for at in range(WORDS_A_LINE)]
    return pa.table({"line": pc.binary_join_element_wise(*words, " "), "at": _instants(n, LINE_STEP_US)})


def _texts(prefix: str, which: Any, count: int) -> Any:
    return pa.array([f"{prefix}{it}" for it in range(count)]).take(pa.array(which))


def _instants(n: Any, step_us: int) -> Any:
    return pa.array(START_US + n * step_us).cast(pa.timestamp("us"))
