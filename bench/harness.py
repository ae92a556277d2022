"""Run workloads on engines, interleaved: A B C, A B C, ... so that a noisy minute hits everybody alike.

Before a time counts, the run's rows are compared with the reference. An engine whose rows differ, or that fails, gets
no figure on that workload; the reason takes its place.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.data import folder_of, load
from bench.digest import difference, digest_of
from bench.environments import NotAvailable, home, python_of
from bench.figures import Figure, figure_of
from bench.process import EngineFailed, EngineProcess
from bench.reference import expected
from bench.registry import Engine
from bench.workloads import Workload

Say = Callable[[str], None]


@dataclass
class Entry:
    """One engine on one workload, as far as it has come."""

    engine: Engine
    events: int
    folder: Path
    wanted: Any
    digest: str
    answers: list[dict[str, Any]]
    note: str = ""


class Harness:
    def __init__(self, engines: Sequence[Engine], *, seed: int, say: Say) -> None:
        self._engines = engines
        self._seed = seed
        self._say = say
        self.pythons: dict[str, Path] = {}
        self.absent: dict[str, str] = {}
        self._staying: dict[str, EngineProcess] = {}
        self._startups: dict[str, float] = {}
        self._opened = ExitStack()
        self.scratch = Path()

    def __enter__(self) -> Harness:
        self.scratch = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-")))
        self._opened.__enter__()
        for engine in self._engines:
            try:
                self.pythons[engine.name] = python_of(engine, self._say)
            except NotAvailable as error:
                self.absent[engine.name] = str(error)
                self._say(f"{engine.name} is not available: {error}")
        return self

    def __exit__(self, *told: Any) -> None:
        self._opened.__exit__(*told)

    def measure(self, workload: Workload, *, events: int | None, repeat: int) -> list[Figure]:
        entries = [
            self._entry(engine, workload, events)
            for engine in self._engines
            if engine.name in self.pythons and workload.kind in engine.kinds
        ]
        for entry in entries:
            if entry.engine.throws_rows_away:
                self._run(entry, workload, "check", wants_rows=True)
        for number in range(repeat):
            for entry in entries:
                if not entry.note:
                    self._run(entry, workload, f"run {number + 1} of {repeat}", wants_rows=False)
        figures = [
            figure_of(workload.name, it.engine.name, it.events, it.answers, it.note) for it in entries
        ]
        absent = [
            Figure(workload.name, it.name, 0, note=f"not available: {self.absent[it.name]}")
            for it in self._engines
            if it.name in self.absent and workload.kind in it.kinds
        ]
        return figures + absent

    def _entry(self, engine: Engine, workload: Workload, given: int | None) -> Entry:
        events = workload.events_for(engine.name, given)
        folder = folder_of(home(), workload, events, seed=self._seed)
        wanted = expected(workload, load(folder))
        return Entry(engine, events, folder, wanted, digest_of(wanted, workload.columns), [])

    def _run(self, entry: Entry, workload: Workload, what: str, *, wants_rows: bool) -> None:
        self._say(f"{workload.name} on {entry.engine.name}: {what}")
        request = {
            "workload": workload.name,
            "events": entry.events,
            "folder": str(entry.folder),
            "wants_rows": wants_rows,
            "scratch": str(self.scratch),
            "seed": self._seed,
            "digest": entry.digest,
        }
        try:
            answer = self._ask(entry.engine, request)
        except EngineFailed as error:
            entry.note = f"failed: {error}"
            self._say(f"{workload.name} on {entry.engine.name} failed: {error}")
            return
        if answer.get("digest", entry.digest) != entry.digest:
            entry.note = f"wrong rows: {self._told(answer, entry, workload)}"
            self._say(f"{workload.name} on {entry.engine.name}: {entry.note}")
        elif not wants_rows:
            entry.answers.append(answer)

    def _ask(self, engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
        if not engine.stays:
            with EngineProcess(engine, self.pythons[engine.name], self.scratch) as process:
                return process.ask(request)
        if engine.name not in self._staying:
            process = EngineProcess(engine, self.pythons[engine.name], self.scratch)
            self._staying[engine.name] = self._opened.enter_context(process)
        try:
            answer = self._staying[engine.name].ask(request)
        except EngineFailed:
            self._staying.pop(engine.name).kill()  # the next run gets a new one
            raise
        if "startup_s" in answer:
            self._startups[engine.name] = answer["startup_s"]
        return {"startup_s": self._startups.get(engine.name), **answer}

    def _told(self, answer: dict[str, Any], entry: Entry, workload: Workload) -> str:
        file = Path(answer["found"])
        with pa.OSFile(str(file), "rb") as source:
            found = pa.ipc.open_file(source).read_all()
        file.unlink()
        return difference(found, entry.wanted, workload.columns) or "the digests differ but the rows do not"
