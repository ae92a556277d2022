"""App files on the command line: how one is named, given parameters, loaded, and complained about.

`launch`, `validate` and `explain` share this. Nothing heavy is imported before an app is really loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peer.complaint import Complaint

if TYPE_CHECKING:
    from dataflow.app import App

Pair = tuple[str, str]


class Pairs(click.ParamType[Pair]):
    """NAME=SOMETHING; the name may not be empty, the rest may hold further equal signs."""

    def __init__(self, form: str, example: str) -> None:
        self.name = form
        self._example = example

    def convert(self, value: str | Pair, param: click.Parameter | None, ctx: click.Context | None) -> Pair:
        if isinstance(value, tuple):
            return value
        name, equals, rest = value.partition("=")
        if not name.strip() or not equals:
            self.fail(f"{value!r} is not {self.name}; write for example {self._example}", param, ctx)
        return name.strip(), rest


def by_name(pairs: Iterable[Pair], *, flag: str) -> dict[str, str]:
    """The pairs as a mapping; a name that is given twice is a mistake, not a choice.

    >>> by_name([("limit", "30"), ("room", "a")], flag="--param")
    {'limit': '30', 'room': 'a'}
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{flag} {name} is given twice; give it once.")
        found[name] = value
    return found


app_argument = click.argument("app", type=click.Path(readable=False, path_type=Path))
param_option = click.option(
    "--param",
    type=Pairs("NAME=VALUE", "--param limit=30"),
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that the app reads with app.param; may be repeated.",
)


def sentence(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def load(path: Path, params: Iterable[Pair]) -> App:
    """The checked app of a file, or a complaint about it."""
    given = by_name(params, flag="--param")
    if (fault := _fault(path)) is not None:
        raise Complaint(fault, "Give the path of a Python file with an `app` in it, such as examples/hot_rooms.py.")
    from dataflow.errors import AppError
    from dataflow.loading import load_app

    try:
        return load_app(path, given)
    except AppError as error:
        what = "the app file or --param" if given else "the app file"
        raise Complaint(sentence(error), f"Mend {what}, then try: peer validate {path}") from None


def _fault(path: Path) -> str | None:
    """Why there is no file to load, if there is none."""
    try:
        if path.is_file():
            return None
        return f"{path} is not a file." if path.exists() else f"There is no app file {path}."
    except OSError as error:  # a folder on the way that we may not enter
        return f"Cannot look at {path}: {error.strerror or error}."
