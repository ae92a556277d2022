"""Which package may import which, and what a machine may not touch.

The arrows are those of the design: `overlay` and `bandit` stand alone, everything else looks down. A
machine is handed the time, its random numbers and its events, so it imports nothing that could fetch them by
itself; only the shells named here may. Imports are read from the syntax tree: lazy ones count too.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT = {
    "overlay": set(),
    "bandit": set(),
    "scaling": {"overlay"},
    "recovery": {"overlay"},
    "dataflow": {"overlay", "bandit", "scaling", "recovery"},
    "spark_sink": {"dataflow"},
    "sim": {"overlay", "bandit", "scaling", "recovery", "dataflow", "spark_sink"},
    "peer": {"overlay", "bandit", "scaling", "recovery", "dataflow", "spark_sink", "sim"},
}
OURS = set(MAY_IMPORT)

WORLD = {
    "asyncio",
    "trio",
    "socket",
    "ssl",
    "select",
    "selectors",
    "threading",
    "subprocess",
    "time",
    "random",
}
SHELL_PACKAGES = {"peer", "spark_sink"}
SHELL_FILES = {
    "dataflow/bundles/importing.py",  # a lock: sys.modules is one for all threads
    "dataflow/connectors/files.py",  # replays a file at its recorded speed
    "dataflow/connectors/lines.py",  # standard input and TCP
    "dataflow/connectors/http_ingest.py",  # a server for rows
    "dataflow/connectors/webhook.py",  # waits before it tries again
    "dataflow/connectors/mqtt.py",  # how long a broker may be silent
    "dataflow/connectors/mqtt_link.py",  # a socket to a broker
    "dataflow/engine/threads.py",
    "dataflow/engine/workers.py",  # processes of Python functions
    "dataflow/local.py",  # one app in this process
    "sim/ring.py",  # experiments report what they cost, in seconds of CPU
    "sim/storm.py",
    "sim/apps/chaos.py",
}
"""Shells that are neither in those packages nor named `*_trio.py`. Each is an exception to argue for."""

HARMLESS = {"random.Random"}
"""A seeded one is handed in as an argument, so its type may be named; the module's own dice may not."""

CODE_FROM_BYTES = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}


def files() -> list[str]:
    return [
        str(it.relative_to(ROOT)) for package in sorted(OURS) for it in sorted((ROOT / package).rglob("*.py"))
    ]


def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), path)


def imports(path: str) -> Iterator[tuple[str, str | None]]:
    """Each imported module with the name taken from it, or None for the module itself."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import: name the package"
            for alias in node.names:
                yield node.module or "", alias.name


def tops(path: str) -> set[str]:
    return {module.partition(".")[0] for module, _ in imports(path)}


def names_used(path: str) -> Iterator[str]:
    """What a file takes from the modules it imports: `trio.open_nursery`, or `trio.*` if nothing by name."""
    tree = tree_of(path)
    attributes = [
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    for module, name in imports(path):
        used = [name] if name else [attribute for owner, attribute in attributes if owner == module]
        yield from (f"{module}.{it}" for it in used or ["*"])


def is_shell(path: str) -> bool:
    return path.partition("/")[0] in SHELL_PACKAGES or path.endswith("_trio.py") or path in SHELL_FILES


@pytest.mark.parametrize("path", files())
def test_imports_only_look_down(path):
    package = path.partition("/")[0]
    upward = (tops(path) & OURS) - MAY_IMPORT[package] - {package}
    assert not upward, f"{path} imports {sorted(upward)}; {package} may import {sorted(MAY_IMPORT[package])}"


@pytest.mark.parametrize("path", files())
def test_a_machine_touches_no_socket_clock_or_dice(path):
    if is_shell(path):
        return
    touched = {it for it in names_used(path) if it.partition(".")[0] in WORLD and it not in HARMLESS}
    assert not touched, (
        f"{path} imports {sorted(touched)}: take it as an argument, or move it to a *_trio.py shell"
    )


@pytest.mark.parametrize("path", files())
def test_only_spark_sink_imports_pyspark(path):
    assert path.startswith("spark_sink/") or "pyspark" not in tops(path)


@pytest.mark.parametrize("path", files())
def test_bytes_from_the_wire_never_become_code(path):
    assert not tops(path) & CODE_FROM_BYTES, f"{path} can build objects from bytes: use wire.py or JSON"
    calls = {
        node.func.id
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "eval" not in calls, f"{path} calls eval"


def test_every_named_shell_exists():
    assert all((ROOT / path).is_file() for path in SHELL_FILES)
