"""Python functions in processes of their own: real parallelism in order, and limits that hold.

A batch is cut into a few pieces for each worker, dealt out in turn, and the results are put together again in order,
so downstream sees what one process would have given. While a worker is busy with one piece, the next is on its way into
its pipe and the reply to the last one is read: nobody waits for packing and unpacking. Workers are fresh interpreters
that build the app again, from its file or from its bundle, and take the stage of the same number. Nothing is pickled.

An app from a bundle runs *all* its stateless Python functions here, within its limits: a function that allocates
without bound, loops for ever or sleeps for ever ends its worker, and the app fails with a sentence about it, while the
peer and its other apps go on. (`process` keeps state and so still runs inside the engine.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from dataflow.bundles.limits import Limits
from dataflow.engine.worker_frames import END_OF_REPLY, READY, Greeting, read_frame, write_frame
from dataflow.engine.worker_limits import ENVIRONMENT, NO_MEMORY_EXIT
from dataflow.errors import AppError
from dataflow.messages import Data
from dataflow.operators.base import Operator, Output
from dataflow.plan import Stage

if TYPE_CHECKING:
    from dataflow.bundles.sealing import Verified

ROWS_PER_PIECE_MIN = 256  # below this a trip to another process costs more than it gains
PIECES_PER_WORKER = 4  # one being worked on, one on its way; more of them even out rows of unequal cost
START_WALL_S = 60  # to start an interpreter and build the app; a small device needs some seconds
PRINTED_BYTES_MAX = 1024  # of one line
LAST_LINES_S = 1.0  # to read what a worker printed before it ended
PYTHON_KINDS = frozenset({"map", "flat_map", "map_batches"})

Process = subprocess.Popen[bytes]
MakeStage = Callable[[Stage], Operator]


class Workers(Operator):
    """Stands in for a stage and hands its batches to processes."""

    ports = 2

    def __init__(
        self, greeting: Greeting, stage: Stage, parallelism: int, on_print: Callable[[str], None] | None = None
    ) -> None:
        if isinstance(greeting.app, str) and not Path(greeting.app).is_file():
            raise AppError("map with parallelism needs an app in a file: workers import it again")
        self._limits = greeting.limits
        self._node = next((node for node in stage.nodes if node.kind in PYTHON_KINDS), stage.nodes[-1])
        self._late: set[int] = set()  # pids that the watchdog ended
        self._is_ready = False
        self._failed = False
        self._feeding: list[threading.Thread] = []
        environment = {**os.environ, **ENVIRONMENT} if self._limits else None
        self._processes = [
            # In a group of their own: Ctrl-C is for the one who feeds them, they end when their pipe does.
            subprocess.Popen(
                [sys.executable, "-m", "dataflow.engine.worker_main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if on_print else None,
                process_group=0,
                env=environment,
            )
            for _ in range(parallelism)
        ]
        self._listeners = [_listen(process, on_print) for process in self._processes if on_print]
        try:
            with self._watched(START_WALL_S):
                for process in self._processes:
                    self._greet(process, greeting)
        except BaseException:
            self.close()
            raise

    def _greet(self, process: Process, greeting: Greeting) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(greeting.pack())
            process.stdin.flush()
        except BrokenPipeError:
            raise self._death(process, START_WALL_S) from None

    def wait_until_ready(self) -> None:
        """Until every worker has built the app; `AppError` if one cannot. The first batch waits by itself."""
        if self._is_ready:
            return
        with self._watched(START_WALL_S):
            for process in self._processes:
                frame = read_frame(_stdout(process))
                if frame is None:
                    raise self._death(process, START_WALL_S)
                assert frame[0] == READY
        self._is_ready = True

    def on_batch(self, source: int, batch: pa.RecordBatch) -> list[Output]:
        self.wait_until_ready()
        workers = self._processes
        count = max(1, min(len(workers) * PIECES_PER_WORKER, batch.num_rows // ROWS_PER_PIECE_MIN))
        edges = [batch.num_rows * at // count for at in range(count + 1)]
        pieces = [batch.slice(start, end - start) for start, end in pairwise(edges)]
        with self._watched(self._limits.batch_wall_s if self._limits else None):
            # Threads, because a worker may be writing a reply while we would be stuck writing to it.
            self._feeding = [
                threading.Thread(target=self._ask, args=(workers[at], pieces[at :: len(workers)]), daemon=True)
                for at in range(min(count, len(workers)))
            ]
            for thread in self._feeding:
                thread.start()
            out = [output for at in range(count) for output in self._reply(workers[at % len(workers)])]
            for thread in self._feeding:
                thread.join()
            return out

    def _ask(self, process: Process, pieces: Sequence[pa.RecordBatch]) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # who waits for the replies will see that it is gone
            for piece in pieces:
                write_frame(process.stdin, 0, piece)
                process.stdin.flush()

    def _reply(self, process: Process) -> list[Output]:
        out: list[Output] = []
        while (frame := read_frame(_stdout(process))) is not None:
            port, batch = frame
            if port == END_OF_REPLY:
                return out
            out.append((port, Data(batch)))
        raise self._death(process)

    @contextmanager
    def _watched(self, wall_s: float | None) -> Iterator[None]:
        """End workers that have not answered by then. Whatever goes wrong meanwhile, none of them is asked again."""
        timer = threading.Timer(wall_s, self._end_the_late) if wall_s is not None else None
        if timer:
            timer.daemon = True
            timer.start()
        try:
            yield
        except BaseException:
            self._failed = True
            raise
        finally:
            if timer:
                timer.cancel()

    def _end_the_late(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                self._late.add(process.pid)
                process.kill()

    def _death(self, process: Process, wall_s: float | None = None) -> AppError:
        """Why a worker is gone, as a sentence with the line of the function that it ran."""
        code = process.wait()
        limits = self._limits or Limits()
        what = f"{self._node.kind} {self._node.draft.detail}".rstrip()
        if process.pid in self._late:
            within = f"{wall_s} s" if wall_s else f"{limits.batch_wall_s} s (batch_wall_s)"
            why = f"did not come back within {within}. Does it wait for something?"
        elif code == -signal.SIGXCPU:
            why = f"used more than {limits.batch_cpu_s} s of CPU for one batch (batch_cpu_s). Does it loop for ever?"
        elif code == NO_MEMORY_EXIT:
            amount = f"more than {limits.memory_mib} MiB of memory (memory_mib)" if self._limits else "too much memory"
            why = f"needed {amount}. Does it keep every row?"
        elif code == -signal.SIGKILL:
            why = "was killed by the system, which does so when memory runs out"
        elif code < 0:
            why = f"ended its worker process with {signal.Signals(-code).name}"
        else:
            why = f"ended its worker process with exit code {code}"
        return AppError(f"{what} {why}", place=self._node.place)

    def close(self) -> None:
        for process in self._processes:
            if self._failed:
                process.kill()
        for thread in self._feeding:
            thread.join()
        for process in self._processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
        for process in self._processes:
            process.wait()
            _stdout(process).close()
        for listener in self._listeners:
            listener.join(LAST_LINES_S)  # whoever a function started may hold the pipe open: then we let go


def _listen(process: Process, on_print: Callable[[str], None]) -> threading.Thread:
    """Hand on what a worker prints, line by line, until it ends. A long line comes in parts."""
    pipe = process.stderr
    assert pipe is not None

    def listen() -> None:
        with pipe:
            while line := pipe.readline(PRINTED_BYTES_MAX):
                on_print(line.decode(errors="replace").rstrip())

    thread = threading.Thread(target=listen, name="what workers print", daemon=True)
    thread.start()
    return thread


def _stdout(process: Process) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def with_workers(file: str, params: Mapping[str, str]) -> tuple[MakeStage, list[Workers]]:
    """How to make stages of an app file so that parallel ones get workers; the list fills as they are made."""

    def make(stage: Stage) -> Operator:
        if stage.nodes[-1].draft.parallelism == 1:
            return stage.make()
        return Workers(Greeting(file, stage.id, params), stage, stage.nodes[-1].draft.parallelism)

    return _remembering(make)


def with_bundle_workers(
    verified: Verified, *, on_print: Callable[[str], None] | None = None
) -> tuple[MakeStage, list[Workers]]:
    """The same for a bundle: every stage with Python in it gets workers, within the bundle's limits.

    `on_print` is called by other threads, with each line that a function prints; without it they go to our stderr.
    """
    bundle = verified.bundle

    def make(stage: Stage) -> Operator:
        if not any(node.kind in PYTHON_KINDS for node in stage.nodes):
            return stage.make()
        greeting = Greeting(bundle.packed, stage.id, {}, bundle.limits)
        return Workers(greeting, stage, max(node.draft.parallelism for node in stage.nodes), on_print)

    return _remembering(make)


def _remembering(make: Callable[[Stage], Operator]) -> tuple[MakeStage, list[Workers]]:
    made: list[Workers] = []

    def remember(stage: Stage) -> Operator:
        operator = make(stage)
        if isinstance(operator, Workers):
            made.append(operator)
        return operator

    return remember, made
