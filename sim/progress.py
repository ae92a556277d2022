"""How an experiment tells how far it is: a share from 0 to 1, and a phrase."""

from collections.abc import Callable

Progress = Callable[[float, str], None]


def silent(share: float, phrase: str) -> None:
    """Nobody is watching."""


def part(progress: Progress, start: float, end: float) -> Progress:
    """The progress of one phase, as part of the whole.

    >>> part(lambda share, phrase: print(share, phrase), 0.5, 1.0)(0.5, "routing")
    0.75 routing
    """
    return lambda share, phrase: progress(start + (end - start) * share, phrase)
