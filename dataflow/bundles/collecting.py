"""From an app file on disk to a bundle: the file, and every module beside it that it imports.

Imports are read from the syntax tree, also those inside functions, and followed through the modules they lead to.
A name is local if a file or folder of that name stands beside the app; the standard library and Shoal itself come
first, because every host has them and a host's own must not be hidden. Whatever is not beside the app must be
installed on the hosts.

Nothing is executed. Promises: the same files give the same bundle, wherever they lie and in whatever order.
Rejected: running the app and looking at sys.modules (it runs code that may never be shipped, and misses lazy imports);
taking the whole folder (a home folder may be large, and private).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from importlib.util import decode_source
from pathlib import Path

from dataflow.bundles.bundle import BUNDLE_BYTES_MAX, FILES_MAX, Bundle, BundleError
from dataflow.bundles.limits import Limits
from dataflow.errors import AppError, Place

OURS = frozenset({"bandit", "dataflow", "overlay", "peer", "recovery", "scaling", "sim", "spark_sink"})
PACKAGE_FILE = "__init__"


def collect(path: str | Path, params: Mapping[str, str] | None = None, limits: Limits | None = None) -> Bundle:
    """The bundle of an app file; an `AppError` with file and line if there is none to be made."""
    file = Path(path)
    if not file.exists():
        raise AppError(f"app file {path} does not exist")
    if not file.is_file():
        raise AppError(f"app file {path} is not a file")
    if file.suffix != ".py":
        raise AppError(f"app file {path} is not a Python file: its name must end in .py")
    files = {file.name: _source(file)}
    waiting = [file.name]
    while waiting:
        name = waiting.pop()
        for found in _local_imports(file.parent, name, files[name]):
            if found not in files:
                files[found] = _source(file.parent / found)
                waiting.append(found)
            if len(files) > FILES_MAX:
                raise BundleError(f"{path} imports more than {FILES_MAX} files beside it; install them as a package")
    return Bundle(file.name, files, dict(params or {}), limits or Limits())


def is_local_name(top: str) -> bool:
    """Whether a module of this name may come out of a bundle at all."""
    return top not in sys.stdlib_module_names and top not in OURS


def package_of(name: str) -> str:
    """The package that a file's relative imports begin from, dotted; empty at the top.

    >>> package_of("riot/table.py"), package_of("riot/__init__.py"), package_of("app.py")
    ('riot', 'riot', '')
    """
    return ".".join(name.split("/")[:-1])


def _source(file: Path) -> str:
    try:
        if file.stat().st_size > BUNDLE_BYTES_MAX:
            raise BundleError(f"{file} is too large for a bundle, which holds {BUNDLE_BYTES_MAX:,} bytes")
        return decode_source(file.read_bytes())
    except OSError as error:
        raise AppError(f"{file} cannot be read: {error.strerror or error}") from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise AppError(f"{file} is not Python source: {error}") from error


def _local_imports(root: Path, name: str, source: str) -> Iterator[str]:
    """Files beside the app that this one imports, in the order it names them."""
    try:
        tree = ast.parse(source, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested too deeply
        line = getattr(error, "lineno", None) or 0
        reason = getattr(error, "msg", None) or str(error) or "nested too deeply"
        raise AppError(f"syntax error: {reason}", place=Place(str(root / name), line)) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(root, name, node)
            for alias in node.names:  # what is taken may be a module itself
                yield from _files_of(root, f"{module}.{alias.name}" if module else alias.name)


def _absolute(root: Path, name: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = package_of(name).split(".") if package_of(name) else []
    if node.level > len(package):
        raise AppError("a relative import that leaves the app's folder", place=Place(str(root / name), node.lineno))
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def _files_of(root: Path, dotted: str) -> Iterator[str]:
    """Every file that importing this name reads: the packages on the way, then the module."""
    parts = dotted.split(".")
    if not is_local_name(parts[0]):
        return
    for depth in range(1, len(parts) + 1):
        stem = "/".join(parts[:depth])
        package = f"{stem}/{PACKAGE_FILE}.py"
        if (root / package).is_file():
            yield package
        elif (root / f"{stem}.py").is_file():
            yield f"{stem}.py"
            return
        elif not (root / stem).is_dir():
            return
