"""From a verified bundle to an App: its modules, in a namespace of their own.

Every module of a bundle is called `shoal_bundle_HASH.name`, so two apps that both have a `helpers.py` have two of
them, and neither hides a module of the host. The source keeps writing `import helpers`: modules of a bundle see an
`__import__` of their own, which looks into their bundle first. Sources come from memory; nothing is written to disk,
no byte code is kept, and a file of the same name in the current folder is never imported.

What the user's code raises is an `AppError` with his file (as the bundle names it) and line.
Rejected: rewriting the imports in the source (lines and columns of errors would no longer be the user's);
a folder for each bundle and sys.path (one name, one module: the second app would get the first one's helpers).
"""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from dataflow.app import GIVEN_PARAMS, App
from dataflow.bundles.bundle import Bundle
from dataflow.bundles.collecting import PACKAGE_FILE, is_local_name
from dataflow.bundles.sealing import Verified
from dataflow.errors import AppError, Place

PREFIX = "shoal_bundle_"
APP_MODULE = "__app__"
"""The app file's own name may be anything, also that of a module beside it."""

_lock = threading.RLock()  # sys.modules is one for all threads, and so are parameters while an app is built


def load_bundle(verified: Verified) -> App:
    """The validated app of a bundle. Loading it again gives a new App; earlier ones keep working."""
    bundle = verified.bundle
    with _lock, _imported(bundle) as namespace, _params(bundle.params):
        try:
            module = importlib.import_module(f"{namespace}.{APP_MODULE}")
        except AppError:
            raise
        except SyntaxError as error:
            place = Place(error.filename or bundle.app_file, error.lineno or 0)
            raise AppError(f"syntax error: {error.msg}", place=place) from error
        except (Exception, SystemExit) as error:
            what = f"the app raises {type(error).__name__}: {error}"
            raise AppError(what, place=_place(bundle, error)) from error
        app = getattr(module, "app", None)
        if not isinstance(app, App):
            raise AppError(f"{bundle.app_file}: no `app` in the file")
        app.validate()
        return app


def namespace_of(bundle: Bundle) -> str:
    return PREFIX + bundle.id


def _place(bundle: Bundle, error: BaseException) -> Place:
    """The innermost line of the user's that was running."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in bundle.files]
    return Place(lines[-1].filename, lines[-1].lineno or 0) if lines else Place(bundle.app_file, 0)


@contextmanager
def _params(params: Mapping[str, str]) -> Iterator[None]:
    token = GIVEN_PARAMS.set(dict(params))
    try:
        yield
    finally:
        GIVEN_PARAMS.reset(token)


@contextmanager
def _imported(bundle: Bundle) -> Iterator[str]:
    """Make the bundle importable. Its modules stay, for imports inside functions; a failed load leaves nothing."""
    namespace = namespace_of(bundle)
    _forget(namespace)
    finder = _Finder(bundle)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(namespace)
        yield namespace
    except BaseException:
        _forget(namespace)
        raise


def unload_bundle(bundle: Bundle) -> None:
    """Forget its modules: for a host whose app has ended. Functions that still run keep what they have imported."""
    with _lock:
        _forget(namespace_of(bundle))


def _forget(namespace: str) -> None:
    sys.meta_path[:] = [it for it in sys.meta_path if not (isinstance(it, _Finder) and it.namespace == namespace)]
    for name in [it for it in sys.modules if it == namespace or it.startswith(namespace + ".")]:
        del sys.modules[name]


class _Finder(MetaPathFinder):
    """Finds the modules of one bundle, and nothing else."""

    def __init__(self, bundle: Bundle) -> None:
        self.namespace = namespace_of(bundle)
        self._bundle = bundle
        self._folders = {
            "/".join(parts[:depth]) for parts in map(_parts, bundle.files) for depth in range(1, len(parts))
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self.namespace:
            return self._spec(fullname, "", is_package=True)
        if not fullname.startswith(self.namespace + "."):
            return None
        stem = fullname[len(self.namespace) + 1 :].replace(".", "/")
        if stem == APP_MODULE:
            return self._spec(fullname, self._bundle.app_file, is_package=False)
        if f"{stem}/{PACKAGE_FILE}.py" in self._bundle.files:
            return self._spec(fullname, f"{stem}/{PACKAGE_FILE}.py", is_package=True)
        if f"{stem}.py" in self._bundle.files:
            return self._spec(fullname, f"{stem}.py", is_package=False)
        return self._spec(fullname, "", is_package=True) if stem in self._folders else None

    def holds(self, top: str) -> bool:
        """Whether `import top` in this bundle means a module of it."""
        return is_local_name(top) and (f"{top}.py" in self._bundle.files or top in self._folders)

    def source(self, file: str) -> str:
        return self._bundle.files[file] if file else ""

    def _spec(self, fullname: str, file: str, *, is_package: bool) -> ModuleSpec:
        loader = _Loader(self, file)
        spec = ModuleSpec(fullname, loader, origin=file or None, is_package=is_package)
        spec.has_location = bool(file)
        return spec


class _Loader(InspectLoader):
    def __init__(self, finder: _Finder, file: str) -> None:
        self._finder = finder
        self._file = file

    def get_source(self, fullname: str) -> str:
        return self._finder.source(self._file)

    def get_code(self, fullname: str) -> CodeType:
        # dont_inherit: our own `from __future__` must not become the user's.
        return compile(self._finder.source(self._file), self._file or fullname, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _Import(self._finder)}
        exec(self.get_code(module.__name__), module.__dict__)


class _Import:
    """`__import__` as the modules of one bundle see it."""

    def __init__(self, finder: _Finder) -> None:
        self._finder = finder

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        if level or not self._finder.holds(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        full = f"{self._finder.namespace}.{name}"
        if fromlist:
            return builtins.__import__(full, globals, locals, fromlist, 0)
        importlib.import_module(full)
        return sys.modules[f"{self._finder.namespace}.{top}"]  # `import a.b` binds a


def _parts(file: str) -> list[str]:
    return file.split("/")
