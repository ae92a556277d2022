"""What comes of a request to the directory."""

from dataclasses import dataclass

from overlay.ids import Key
from overlay.records import Record


@dataclass(frozen=True, slots=True)
class Stored:
    """What came of a put: copies made, holders that should have one, and why some have not."""

    copies: int
    wanted: int
    refused: dict[str, int]
    """How often each reason was given; "silent" is a holder that did not answer."""

    @property
    def is_stored(self) -> bool:
        return self.copies > 0


@dataclass(frozen=True, slots=True)
class Listing:
    """What came of a get: the newest record of every publisher, by publisher, and how many holders were
    heard.

    No record and `holders` of zero means that nobody answered, not that nothing is offered.
    """

    records: tuple[Record, ...]
    holders: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """An observation: a record of ours was published again, by itself."""

    key: Key
    stored: Stored
