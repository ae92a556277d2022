"""The frame around every engine: requests come in as lines of JSON, figures go out as lines of JSON.

An engine is a function of a `Request` that runs one workload once. It says `begin()` when the first row goes in and
`end()` when the last row is out, so that imports, compiling and loading of data are in none of the rates; the frame
reads clock, CPU account and peak memory at these two marks. The result's digest is computed after the end.

Runs in every engine's environment: standard library, pyarrow and numpy only.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.data import Streams, load
from bench.digest import digest_of
from bench.engines.meter import cpu_s, forget_peaks, peak_rss_mib
from bench.workloads import ALL, Workload

SPAWNED_AT = "SHOAL_BENCH_SPAWNED_AT"


@dataclass(slots=True)
class Request:
    """One run of one workload, and its two marks."""

    workload: Workload
    events: int
    """An engine that makes its own rows may raise it in a timed run, so that what a job costs by itself fades."""
    folder: Path
    wants_rows: bool
    """If not, an engine whose rows are costly to fetch may throw them away: they were checked in an earlier run."""
    scratch: Path
    seed: int
    begun: tuple[float, float] | None = None
    ended: tuple[float, float] | None = None
    peak_rss_mib: float = 0.0
    loading_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> Streams:
        """The input in memory; the time it takes is nobody's start-up."""
        since = time.monotonic()
        found = load(self.folder)
        self.loading_s += time.monotonic() - since
        return found

    def prepare(self, make: Callable[[], Any]) -> Any:
        """Turn the input into what the engine likes best; not part of its start-up either."""
        since = time.monotonic()
        made = make()
        self.loading_s += time.monotonic() - since
        return made

    def begin(self) -> None:
        with self._lock:  # sources may be read by several threads
            if self.begun is None:
                self.begun = time.monotonic(), cpu_s()

    def end(self) -> None:
        self.ended = time.monotonic(), cpu_s()
        self.peak_rss_mib = peak_rss_mib()


Engine = Callable[[Request], Any]
"""Gives the result as a pa.Table, or None if its rows were not wanted and not kept."""


def serve(engine: Engine) -> None:
    """Answer requests until there are no more."""
    # Whatever libraries print goes to stderr: standard output is for answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    spawned: float | None = float(os.environ.get(SPAWNED_AT, time.monotonic()))
    for line in sys.stdin:
        asked = json.loads(line)
        request = Request(
            ALL[asked["workload"]],
            asked["events"],
            Path(asked["folder"]),
            asked["wants_rows"],
            Path(asked["scratch"]),
            asked["seed"],
        )
        if spawned is None:
            forget_peaks()
        answer = _answer(request, engine, asked.get("digest"))
        if spawned is not None and request.begun:
            answer["startup_s"] = request.begun[0] - spawned - request.loading_s
        spawned = None
        answers.write(json.dumps(answer) + "\n")


def _answer(request: Request, engine: Engine, wanted: str | None) -> dict[str, Any]:
    rows = engine(request)
    assert request.begun is not None, "the engine never said begin()"
    assert request.ended is not None, "the engine never said end()"
    answer: dict[str, Any] = {
        "events": request.events,
        "wall_s": request.ended[0] - request.begun[0],
        "cpu_s": request.ended[1] - request.begun[1],
        "peak_rss_mib": request.peak_rss_mib,
    }
    if rows is not None:
        answer |= {"rows_out": rows.num_rows, "digest": digest_of(rows, request.workload.columns)}
        if answer["digest"] != wanted:
            file = request.scratch / "found.arrow"
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
            answer["found"] = str(file)
    return answer
