"""Run an app in this process: connectors on threads, stages on threads (or all in one), a summary at the end.

This is a shell: threads, queues and the clock live here and in engine/threads.py; decisions do not.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from dataflow.app import App
from dataflow.connectors.protocol import Letters, SinkConnector, SourceConnector
from dataflow.connectors.reading import message_of
from dataflow.connectors.specs import parse_sink, parse_source
from dataflow.dead_letters import Letter, dead_letters
from dataflow.engine.executor import Executor
from dataflow.engine.threads import ThreadedExecutor
from dataflow.engine.workers import with_workers
from dataflow.errors import AppError, did_you_mean
from dataflow.loading import load_app
from dataflow.messages import Data, End, Idle, Message
from dataflow.operators.base import SIDE
from dataflow.plan import Plan, make_plan

READS_WAITING_MAX = 4  # per run: one being worked on, the next ones being parsed meanwhile
IDLE_AFTER_S = 1.0
PROGRESS_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did (so far)."""

    rows_in: int
    rows_out: int
    late: int
    dead_letters: int
    seconds: float
    first_letters: tuple[Letter, ...] = ()
    """Some of the dead letters, wherever they were found."""

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds if self.seconds else 0.0


Item = tuple[str, Message | Letters | BaseException]


def run(
    app: App,
    sources: Mapping[str, SourceConnector | str],
    sinks: Mapping[str, SinkConnector | str] | None = None,
    *,
    params: Mapping[str, str] | None = None,
    on_progress: Callable[[Summary], None] | None = None,
    threads: bool = True,
    stop: threading.Event | None = None,
) -> Summary:
    """Run until every source ends (or `stop` is set). Sinks that are not given print to the console."""
    if params:
        app = load_app(app.file, params)
    app.validate()
    plan = make_plan(app.graph)
    readers = _bind_sources(app, sources)
    writers = _bind_sinks(plan, sinks or {})
    return _Run(app, plan, readers, writers, params or {}, on_progress, stop or threading.Event()).run(threads=threads)


def _bind_sources(app: App, given: Mapping[str, SourceConnector | str]) -> dict[str, SourceConnector]:
    nodes = {node.name: node for node in app.graph.of_kind("source")}
    for name in given:
        if name not in nodes:
            raise AppError(f'app "{app.name}" has no source "{name}"; {did_you_mean(name, nodes)}')
    readers: dict[str, SourceConnector] = {}
    for name, node in nodes.items():
        if name not in given:
            raise AppError(f'source "{name}" is not connected; give for example --source {name}=file:{name}.csv')
        connector = given[name]
        reader = parse_source(connector) if isinstance(connector, str) else connector
        flow = node.draft.outputs[0]
        if hasattr(reader, "bind"):
            reader.bind(name, flow.time.name if flow.time else None)
        readers[name] = reader
    return readers


def _bind_sinks(plan: Plan, given: Mapping[str, SinkConnector | str]) -> dict[str, SinkConnector]:
    for name in given:
        if name not in plan.sinks:
            raise AppError(f'there is no sink "{name}"; {did_you_mean(name, plan.sinks)}')
    writers: dict[str, SinkConnector] = {}
    for name in plan.sinks:
        connector = given.get(name, "console")
        prefix = f"{name}: " if len(plan.sinks) > 1 else ""
        writers[name] = parse_sink(connector, prefix=prefix) if isinstance(connector, str) else connector
    return writers


class _Run:
    def __init__(
        self,
        app: App,
        plan: Plan,
        readers: dict[str, SourceConnector],
        writers: dict[str, SinkConnector],
        params: Mapping[str, str],
        on_progress: Callable[[Summary], None] | None,
        stop: threading.Event,
    ) -> None:
        self._app = app
        self._plan = plan
        self._readers = readers
        self._writers = writers
        self._params = params
        self._on_progress = on_progress
        self._stop = stop
        self._schemas = {node.name: node.draft.outputs[0].schema for node in app.graph.of_kind("source")}
        self._queue: queue.Queue[Item] = queue.Queue(READS_WAITING_MAX)
        self._rows_in = 0
        self._rows_out = dict.fromkeys(writers, 0)  # each counted by the one thread that feeds its sink
        self._begin = time.monotonic()
        self._last_progress = self._begin
        self._side_rows: dict[str, int] = {}
        self._first_letters: list[Letter] = []
        self._halt = threading.Event()
        self._putting: dict[str, bool] = dict.fromkeys(readers, False)  # who has something to give and must wait

    def run(self, *, threads: bool) -> Summary:
        with ExitStack() as opened:
            for name, writer in self._writers.items():
                writer.open(self._plan.schemas[name])
                opened.callback(writer.close)
            self._run_stages(threads=threads)
        return self._summary()

    def _run_stages(self, *, threads: bool) -> None:
        make, workers = with_workers(self._app.file, self._params)
        executor: Executor | ThreadedExecutor | None = None
        reading: list[threading.Thread] = []
        try:
            executor = (
                ThreadedExecutor(self._plan, self._arrive, make=make) if threads else Executor(self._plan, make=make)
            )
            self._side_rows, self._first_letters = executor.side_rows, executor.first_letters
            reading = [
                threading.Thread(target=self._read, args=(name,), name=f"source {name}", daemon=True)
                for name in self._readers
            ]
            for thread in reading:
                thread.start()
            self._pump(executor)
            if isinstance(executor, ThreadedExecutor):
                executor.close()
        finally:
            self._halt.set()
            if isinstance(executor, ThreadedExecutor):
                executor.stop()
            for worker in workers:
                worker.close()

    def _pump(self, executor: Executor | ThreadedExecutor) -> None:
        open_sources = set(self._readers)
        heard = dict.fromkeys(self._readers, time.monotonic())
        while open_sources:
            if self._stop.is_set():
                for name in sorted(open_sources):
                    self._feed(executor, name, End())
                return
            try:
                name, item = self._queue.get(timeout=PROGRESS_EVERY_S)
            except queue.Empty:
                self._mark_idle(executor, open_sources, heard)
                self._progress()
                continue
            heard[name] = time.monotonic()
            # A busy source must not wait for ever for the watermark of a quiet one.
            self._mark_idle(executor, open_sources, heard)
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Letters):
                self._carry(executor.feed_side(name, SIDE, Data(dead_letters(item.letters))))
            else:
                self._feed(executor, name, item)
                if isinstance(item, End):
                    open_sources.discard(name)
            self._progress()

    def _feed(self, executor: Executor | ThreadedExecutor, name: str, message: Message) -> None:
        if isinstance(message, Data):
            self._rows_in += message.batch.num_rows
        self._carry(executor.feed(name, message))

    def _carry(self, arrivals: list[tuple[str, Message]] | None) -> None:
        for name, message in arrivals or ():
            self._arrive(name, message)

    def _arrive(self, name: str, message: Message) -> None:
        if isinstance(message, Data):
            self._rows_out[name] += message.batch.num_rows
            self._writers[name].write(message.batch)

    def _mark_idle(
        self, executor: Executor | ThreadedExecutor, open_sources: set[str], heard: dict[str, float]
    ) -> None:
        now = time.monotonic()
        for name in sorted(open_sources):
            if now - heard[name] > IDLE_AFTER_S and not self._putting[name]:
                heard[name] = now
                self._feed(executor, name, Idle())

    def _read(self, name: str) -> None:
        try:
            for each in self._readers[name].read(self._schemas[name]):
                self._put((name, each if isinstance(each, Letters) else message_of(name, self._schemas[name], each)))
                if self._halt.is_set():
                    return
            self._put((name, End()))
        except BaseException as error:  # handed to the thread that runs the app
            self._put((name, error))

    def _put(self, item: Item) -> None:
        self._putting[item[0]] = True
        while not self._halt.is_set():
            try:
                self._queue.put(item, timeout=PROGRESS_EVERY_S)
                break
            except queue.Full:
                continue
        self._putting[item[0]] = False

    def _progress(self) -> None:
        now = time.monotonic()
        if self._on_progress and now - self._last_progress >= PROGRESS_EVERY_S:
            self._last_progress = now
            self._on_progress(self._summary())

    def _summary(self) -> Summary:
        return Summary(
            self._rows_in,
            sum(self._rows_out.values()),
            self._side_rows.get("late", 0),
            self._side_rows.get("dead_letters", 0),
            time.monotonic() - self._begin,
            tuple(self._first_letters),
        )
