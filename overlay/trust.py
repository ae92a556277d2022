"""Whom a node believes: what it needs of certificates, as three functions.

The machines below know no keys and no CA. A real peer gets `trust_of` its own identity; the simulator, which studies
routing and not forgery, runs on `OPEN`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from overlay.denylist import NOBODY, Denylist, DenylistError
from overlay.records import Record


def _refuse_every_denylist(raw: bytes) -> Denylist:
    raise DenylistError("forged", "a node without a CA obeys no denylist")


@dataclass(frozen=True, slots=True)
class Trust:
    check: Callable[[Record, float], str | None]
    """The reason to refuse a record, or None (`records.RecordCheck`)."""

    sign: Callable[[Record], Record]
    """Vouch for a record of our own."""

    read_denylist: Callable[[bytes], Denylist]
    """Verify a denylist, or raise `DenylistError`."""

    denylist: Denylist = field(default=NOBODY)
    """What we know to be denied when we start."""


OPEN = Trust(check=lambda record, now: None, sign=lambda record: record, read_denylist=_refuse_every_denylist)
"""Believe everybody: for the simulator only."""
