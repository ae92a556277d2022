"""How long to wait before trying a peer again.

Each failure doubles the wait, up to a limit, and chance takes away up to half of it: a hundred peers that
lost the same neighbour do not all come back in the same millisecond.

Pure: `now` and `rng` come in.
Rejected: full jitter (anything from zero): it redials a dead peer at once too often; a wait that grows
without limit: a device that comes back after a day must be found within seconds.
"""

from random import Random
from typing import Final

BACKOFF_MIN_S: Final = 0.2
"""After the first failure. A peer that restarts is away for about as long."""
BACKOFF_MAX_S: Final = 8.0
"""At most. A dial that fails costs one packet, so the price of a low limit is small."""


class Backoff:
    """The patience with one address.

    >>> backoff, rng = Backoff(), Random(1)
    >>> backoff.on_failure(100.0, rng); backoff.may_try(100.0), backoff.may_try(100.2)
    (False, True)
    >>> backoff.on_success(); backoff.may_try(100.0)
    True
    """

    __slots__ = ("_failures", "_max_s", "_min_s", "not_before")

    def __init__(self, *, min_s: float = BACKOFF_MIN_S, max_s: float = BACKOFF_MAX_S) -> None:
        assert 0 < min_s <= max_s
        self._min_s = min_s
        self._max_s = max_s
        self._failures = 0
        self.not_before = 0.0

    def may_try(self, now: float) -> bool:
        return now >= self.not_before

    def on_failure(self, now: float, rng: Random) -> None:
        # Powers beyond the limit are cut before they are computed: 2**5000 is not a float.
        wait_s = min(self._max_s, self._min_s * 2 ** min(self._failures, 32))
        self._failures += 1
        self.not_before = now + wait_s * rng.uniform(0.5, 1.0)

    def on_success(self) -> None:
        self._failures = 0
        self.not_before = 0.0
