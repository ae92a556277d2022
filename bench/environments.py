"""An environment of its own for each engine, made when it is first asked for.

They live under $SHOAL_BENCH_HOME (else ~/.cache/shoal-bench), named after what is in them: other pins are another
environment. An engine that cannot be had is told with its reason and left out; nothing takes its place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.registry import Engine

PEERS = Path(__file__).with_name("peers.txt")
INSTALL_S_MAX = 900
READY = "ready"


class NotAvailable(Exception):  # noqa: N818 (a fact about this machine, not an error of ours)
    """This engine cannot be measured here, and why."""


def home() -> Path:
    given = os.environ.get("SHOAL_BENCH_HOME")
    return Path(given) if given else Path.home() / ".cache" / "shoal-bench"


def pins(text: str) -> dict[str, list[str]]:
    """
    >>> pins("# why\\nbytewax: bytewax==0.21.1 numpy==2.4.6")
    {'bytewax': ['bytewax==0.21.1', 'numpy==2.4.6']}
    """
    lines = [line.partition(":") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {name.strip(): wanted.split() for name, _, wanted in lines}


def python_of(engine: Engine, say: Callable[[str], None]) -> Path:
    """The interpreter that has the engine; installs it if need be."""
    if engine.needs_java and not java():
        raise NotAvailable("it needs Java 17 or newer; set JAVA_HOME or put java on the PATH")
    if engine.environment is None:
        return Path(sys.executable)
    wanted = pins(PEERS.read_text())[engine.environment]
    folder = home() / "envs" / folder_name(engine.environment, wanted)
    python = folder / "bin" / "python"
    if not (folder / READY).is_file():
        say(f"installing {wanted[0]} into {folder}")
        _install(folder, python, wanted)
    return python


def folder_name(environment: str, wanted: list[str]) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{environment}-{hashlib.sha256(' '.join([version, *wanted]).encode()).hexdigest()[:8]}"


def _install(folder: Path, python: Path, wanted: list[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # a half-made one
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])
    (folder / READY).touch()


def _run(command: list[str]) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S_MAX)
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"its installation took more than {INSTALL_S_MAX} s") from error
    if ended.returncode:
        told = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or ended.stderr.splitlines()
        raise NotAvailable(f"pip could not install it: {told[-1] if told else 'no reason given'}")


def java(environ: Mapping[str, str] = os.environ) -> str | None:
    """The folder of a Java runtime, or None."""
    given = environ.get("JAVA_HOME")
    if given and (Path(given) / "bin" / "java").is_file():
        return given
    found = shutil.which("java", path=environ.get("PATH"))
    return str(Path(found).resolve().parent.parent) if found else None
