"""What can be wrong with an app, said in one sentence with the place to look at.

An `AppError` is the user's to mend: it names the operator, the column and the line of the app file.
Anything else that escapes this package is our own bug and keeps its traceback.

Rejected: one exception class per mistake; nobody catches them apart, everybody reads the sentence.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PACKAGE_DIRECTORY = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Place("<unknown>", 0)


class AppError(Exception):
    """The app, its input or its settings are wrong; the message is the whole story."""

    def __init__(self, message: str, *, place: Place | None = None) -> None:
        super().__init__(f"{place}: {message}" if place and place != NOWHERE else message)
        self.message = message
        self.place = place


class OutOfMemoryError(AppError):
    """A function of the app found no memory. Not a bad row: the next one would find none either."""

    def __init__(self, what: str, *, place: Place | None = None) -> None:
        super().__init__(f"{what}: there is no memory left. Does it keep every row?", place=place)


def place_of_caller() -> Place:
    """The nearest frame outside this package: the line the user wrote."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE_DIRECTORY):
            return Place(file, frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return NOWHERE


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A closing remark that helps: the nearest known name, or all of them.

    >>> did_you_mean("celcius", ["celsius", "room"])
    'did you mean "celsius"?'
    """
    names = list(known)
    near = difflib.get_close_matches(wrong, names, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return "there is " + ", ".join(f'"{name}"' for name in names) if names else "there are none"
