"""What happened, as one hash: two runs are the same run if their hashes are equal.

Every event that reaches a peer becomes a line of text, `time peer what from`, hashed as it passes. A line
holds nothing that differs between processes: no object address, no hash order. With `deep` it holds the
whole message; without, its type, which costs a microsecond and still catches any difference that lasts.
The last lines may be kept, to be shown when a run fails.

Rejected: keeping the whole trace (gigabytes at 10,000 peers).
"""

from collections import deque
from hashlib import blake2b
from typing import Any, Final

LINES_A_HASH: Final = 1024
"""Lines gathered before they are hashed: one call for many is cheaper."""


class Trace:
    """Hashes a run, line by line.

    >>> trace = Trace(last=1)
    >>> trace.note(0.5, "ab", "Ping", "cd"); trace.last
    ['0.5 ab Ping cd']
    """

    __slots__ = ("_deep", "_hash", "_last", "_lines", "events")

    def __init__(self, *, deep: bool = False, last: int = 0) -> None:
        self.events = 0
        self._deep = deep
        self._hash = blake2b(digest_size=16, person=b"shoal-trace")
        self._last: deque[str] = deque(maxlen=last)
        self._lines: list[str] = []

    def event(self, now: float, peer: str, event: Any, sender: str) -> None:
        """A message or a timer reached `peer`."""
        lines = self._lines
        lines.append(f"{now!r} {peer} {_stable(event) if self._deep else type(event).__name__} {sender}")
        if len(lines) >= LINES_A_HASH:
            self._flush()

    def note(self, now: float, peer: str, what: str, about: str = "") -> None:
        """Something happened to `peer` that is neither."""
        self._lines.append(f"{now!r} {peer} {what} {about}")

    def _flush(self) -> None:
        self.events += len(self._lines)
        self._hash.update("\n".join([*self._lines, ""]).encode())
        self._last.extend(self._lines)
        self._lines.clear()

    @property
    def last(self) -> list[str]:
        """The last lines, oldest first."""
        self._flush()
        return list(self._last)

    @property
    def digest(self) -> str:
        """The hash of everything so far."""
        self._flush()
        return self._hash.hexdigest()


def _stable(event: Any) -> str:
    text = repr(event)
    assert " at 0x" not in text, f"{type(event).__name__} has no stable text, so two runs cannot be compared"
    return text
