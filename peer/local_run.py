"""One app in this process: connect it, run it, show how far it is, and let Ctrl-C end it in good order.

The first Ctrl-C (or SIGTERM) ends the input: open windows give their results, files are closed, the closing line is
printed. Another one ends the process at once, for whoever cannot wait.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from dataflow.app import App
from dataflow.connectors.protocol import SinkConnector
from dataflow.connectors.specs import parse_sink, parse_source
from dataflow.local import Summary, run
from peer.complaint import Complaint
from peer.screen import Screen
from peer.watching import WatchedSink, WatchedSource, file_of, rows_expected, share_read

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did, and the signal that ended it, if one did."""

    summary: Summary
    sources: dict[str, WatchedSource]
    sinks: dict[str, WatchedSink]
    cpu_seconds: float
    signal: int | None

    @property
    def unread(self) -> int:
        """Rows that were dead before the app saw them."""
        return sum(source.dead_letters for source in self.sources.values())


def run_here(
    app: App, sources: Mapping[str, str], sinks: Mapping[str, str], params: Mapping[str, str], *, form: str
) -> Outcome:
    """Run to the end of all sources, or to the first signal. Raises AppError, OSError and Complaint."""
    _check_files(sources, sinks)
    watched_sources = {name: WatchedSource(parse_source(spec), rows_expected(spec)) for name, spec in sources.items()}
    watched_sinks = _connect_sinks(app, sinks, form)
    cpu_begin = _cpu_seconds()
    with _stopping() as stopping, _progress(list(watched_sources.values())) as on_progress:
        summary = run(
            app, watched_sources, watched_sinks, params=params, on_progress=on_progress, stop=stopping.requested
        )
    return Outcome(summary, watched_sources, watched_sinks, _cpu_seconds() - cpu_begin, stopping.signal)


def _check_files(sources: Mapping[str, str], sinks: Mapping[str, str]) -> None:
    """Before a sink is opened, which empties its file."""
    inputs = {name: path for name, spec in sources.items() if (path := file_of(spec)) is not None}
    for name, path in inputs.items():
        if not path.exists():
            raise Complaint(
                f'File {path} of source "{name}" does not exist.', f"Give another: --source {name}=file:PATH"
            )
        if path.is_dir():
            raise Complaint(
                f'Source "{name}" cannot read {path}: it is a folder.', f"Give a file in it: --source {name}=file:PATH"
            )
    taken = {path.resolve(): f'source "{name}"' for name, path in inputs.items()}
    for name, spec in sinks.items():
        target = file_of(spec)
        if target is None:
            continue
        if (other := taken.get(target.resolve())) is not None:
            raise Complaint(
                f'Sink "{name}" would overwrite {target}, the file of {other}.',
                f"Give another: --sink {name}=file:PATH",
            )
        taken[target.resolve()] = f'sink "{name}"'


def _connect_sinks(app: App, given: Mapping[str, str], form: str) -> dict[str, WatchedSink]:
    """Those that are not given, or given as `console`, share the screen."""
    specs = {node.name: "console" for node in app.graph.of_kind("sink")} | dict(given)
    screen = Screen(form=form, shared=list(specs.values()).count("console") > 1)
    connectors: dict[str, SinkConnector] = {
        name: screen.sink(name) if spec == "console" else parse_sink(spec) for name, spec in specs.items()
    }
    return {name: WatchedSink(connector) for name, connector in connectors.items()}


class _Stopping:
    """What signals have asked for."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.signal: int | None = None

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        self.requested.set()


@contextmanager
def _stopping() -> Iterator[_Stopping]:
    stopping = _Stopping()
    before = {number: signal.signal(number, stopping.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(sources: list[WatchedSource]) -> Iterator[Callable[[Summary], None] | None]:
    """A bar for a person who waits for a finite input. On stderr: stdout is for rows."""
    if not sys.stderr.isatty() or any(source.rows_expected is None for source in sources):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    shape = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    # Rows go above the bar if they go to the terminal at all; a pipe must get them untouched.
    with Progress(
        *shape, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()
    ) as progress:
        task = progress.add_task("starting", total=1.0)

        def update(summary: Summary) -> None:
            rows = f"{summary.rows_in:,} rows in, {summary.rows_out:,} out"
            progress.update(task, completed=share_read(sources), description=rows)

        yield update


def _cpu_seconds() -> float:
    """Of this process, and of worker processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def closing_line(app: App, summary: Summary) -> str:
    counts = [
        _many(summary.rows_in, "row") + " in",
        _many(summary.rows_out, "row") + " out",
        f"{summary.late:,} late",
        _many(summary.dead_letters, "dead letter"),
        f"{summary.rows_per_second:,.0f} rows/s",
    ]
    return f"{app.name}: {', '.join(counts)}"


def _many(count: int, word: str) -> str:
    """
    >>> _many(1, "row"), _many(2000, "dead letter")
    ('1 row', '2,000 dead letters')
    """
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def closing_facts(app: App, summary: Summary) -> dict[str, Any]:
    """The closing line for programs."""
    return {
        "app": app.name,
        "rows_in": summary.rows_in,
        "rows_out": summary.rows_out,
        "late": summary.late,
        "dead_letters": summary.dead_letters,
        "seconds": round(summary.seconds, 3),
        "rows_per_second": round(summary.rows_per_second),
    }


def stats(outcome: Outcome) -> dict[str, Any]:
    """What the closing line leaves out: cost, and each source and sink by itself."""
    rows_in, cpu = outcome.summary.rows_in, outcome.cpu_seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": round(outcome.summary.seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "rows_per_cpu_second": round(rows_in / cpu) if cpu else 0,
        "peak_memory_mib": round(peak / (MIB if sys.platform == "darwin" else 1024)),
        "sources": {name: it.rows for name, it in outcome.sources.items()},
        "unread": {name: it.dead_letters for name, it in outcome.sources.items()},
        "sinks": {name: it.rows for name, it in outcome.sinks.items()},
    }


def letters_told(app: App, outcome: Outcome) -> list[str]:
    """The first rows that could not be read or worked on, and how to keep all; nothing if the app keeps them itself."""
    if _keeps_dead_letters(app):
        return []
    letters = outcome.summary.first_letters
    lines = [
        f"dead letter {f'{file}:{line}' if file else origin}: {' '.join(reason.split())}"
        for origin, file, line, reason, _ in letters
    ]
    more = outcome.summary.dead_letters - len(letters)
    if more > 0:
        lines.append(f"and {more:,} more")
    if lines:
        lines.append('Keep them all, with their reasons: end .dead_letters() of the stream in a .sink("bad").')
    return lines


def _keeps_dead_letters(app: App) -> bool:
    edges = [edge for node in app.graph.of_kind("sink") for edge in node.inputs]
    return any(app.graph.nodes[edge.node].draft.ports[edge.port] == "dead_letters" for edge in edges)
