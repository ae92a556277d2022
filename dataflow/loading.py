"""From an app file to an App: run the file, find `app`, check it.

Whatever is wrong with the file is said in one sentence with file and line; a user never sees our stack.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from dataflow.app import GIVEN_PARAMS, App
from dataflow.errors import AppError, Place


def load_app(path: str | Path, params: Mapping[str, str] | None = None) -> App:
    """The validated `app` of a Python file, built with these parameters."""
    file = Path(path).resolve()
    if not file.exists():
        raise AppError(f"app file {path} does not exist")
    if not file.is_file():
        raise AppError(f"app file {path} is not a file")
    token = GIVEN_PARAMS.set(dict(params or {}))
    sys.path.insert(0, str(file.parent))  # an app may be made of several files
    try:
        app = _run(file)
        app.validate()
        return app
    finally:
        sys.path.remove(str(file.parent))
        GIVEN_PARAMS.reset(token)


def _run(file: Path) -> App:
    # Not under its own name: an app file called json.py must not hide the real one.
    spec = importlib.util.spec_from_file_location(f"shoal_app_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise AppError(f"app file {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except AppError:
        raise
    except SyntaxError as error:
        raise AppError(f"syntax error: {error.msg}", place=Place(str(file), error.lineno or 0)) from error
    except OSError as error:
        raise AppError(f"app file {file} cannot be read: {error}") from error
    except (Exception, SystemExit) as error:
        lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        place = Place(str(file), lines[-1].lineno or 0) if lines else Place(str(file), 0)
        raise AppError(f"the app file raises {type(error).__name__}: {error}", place=place) from error
    app = getattr(module, "app", None)
    if not isinstance(app, App):
        raise AppError(f'{file}: no `app` in the file; write for example app = App("{file.stem}")')
    return app
