"""An engine's process: start it, ask it for runs, end it. Nothing of it outlives the bench.

It is the leader of a session of its own, so that Ctrl-C reaches only the bench, which then ends what it started: the
process and the JVM or workers below it.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from bench.engines.serve import SPAWNED_AT
from bench.environments import java
from bench.registry import Engine

ROOT = Path(__file__).parent.parent
ANSWER_S_MAX = 600.0
GOODBYE_S_MAX = 20.0
ERROR = re.compile(r"(Caused by: )?[\w.]*(Error|Exception)\b")


class EngineFailed(Exception):  # noqa: N818 (a fact about the engine, told in its place in the table)
    """The engine's process gave no figure, and why."""


class EngineProcess:
    def __init__(self, engine: Engine, python: Path, scratch: Path) -> None:
        self.engine = engine
        self._log = scratch / f"{engine.name}.log"
        java_home = java()
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            SPAWNED_AT: repr(time.monotonic()),
            **({"JAVA_HOME": java_home} if java_home else {}),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", engine.module],
                cwd=ROOT,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def ask(self, request: dict[str, Any], *, within_s: float = ANSWER_S_MAX) -> dict[str, Any]:
        """One run."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EngineFailed(self._last_words()) from error
        line = self._line(within_s)
        if not line:
            raise EngineFailed(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _line(self, within_s: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(within_s):
                raise EngineFailed(f"no answer within {within_s:g} s")
        return stdout.readline()

    def _last_words(self) -> str:
        lines = [it.strip() for it in self._log.read_text(errors="replace").splitlines() if it.strip()]
        errors = [it for it in lines if ERROR.match(it)]
        return (errors or lines or ["it ended without a word"])[-1]

    def close(self) -> None:
        """Let it end by itself: no more requests."""
        self._close_pipe(self._process.stdin)
        until = time.monotonic() + GOODBYE_S_MAX
        while time.monotonic() < until and not self._has_ended():
            time.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        """End it and what it started, a JVM perhaps: they are one session, whose id is this process's until we wait."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close_pipe(self._process.stdin)
        self._close_pipe(self._process.stdout)

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    @staticmethod
    def _close_pipe(pipe: IO[bytes] | None) -> None:
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.close()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()
