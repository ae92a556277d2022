"""How far a source has been fed, and where in it each epoch ended.

Units are rows and letters, counted from the start of the app's life at this device; the log on the device (or the
file behind the connector) can be read again from any of them. A token is put in between two units, and the offset in
front of it is what the record will hold: whoever begins from that epoch begins there.

Pure: it counts. Reading, logging and syncing are the shell's.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Feed:
    """
    >>> feed = Feed(offset=10)
    >>> feed.fed(5); feed.token(1); feed.fed(3); feed.token(2)
    15
    18
    >>> feed.offset_of(1), feed.committed(1), feed.committed(1)
    (15, 15, None)
    """

    offset: int = 0
    is_ended: bool = False
    is_held: bool = False
    """Silent behind a token, because the next generation begins there."""
    _tokens: dict[int, int] = field(default_factory=dict)

    def fed(self, units: int) -> None:
        self.offset += units

    def token(self, epoch: int) -> int:
        """The epoch ends here."""
        self._tokens[epoch] = self.offset
        return self.offset

    def offset_of(self, epoch: int) -> int | None:
        return self._tokens.get(epoch)

    def committed(self, epoch: int) -> int | None:
        """The offset below which nobody will read again; None if that is no news."""
        offset = self._tokens.get(epoch)
        for earlier in [it for it in self._tokens if it <= epoch]:
            del self._tokens[earlier]
        return offset
