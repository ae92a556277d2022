"""Where a directory stands: who we are, whom we know, what we may sign.

One object that all parts of a peer's directory share, so that none of them has to be handed seven things.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from overlay.contact import Contact
from overlay.directory_settings import DirectorySettings
from overlay.ids import Key
from overlay.records import Record


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    me: Contact
    nearest: Callable[[Key, int], list[Contact]]
    """The peers nearest to a key that we know, nearest first, without us."""
    check: Callable[[Record, float], str | None]
    """The reason why a record must not be believed, or None."""
    sign: Callable[[Record], Record]
    nonce: Callable[[], int]
    rng: Random
    settings: DirectorySettings
