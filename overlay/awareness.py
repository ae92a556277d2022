"""How far we trust our own senses.

A peer that is itself slow sees everybody else as silent. Before it accuses anyone it should ask whether the
fault is its own: missing nacks, late timers and being suspected raise a score, every probe that goes well
lowers it, and all our probe timeouts and periods stretch with it (Lifeguard's local health multiplier).

Pure: a number between 0 and `SCORE_MAX`.
Rejected: measuring CPU load; a swapping disk, a bad radio and a stopped process look idle.
"""

SCORE_MAX = 8
"""Timeouts stretch at most (SCORE_MAX + 1)-fold. Higher forgives slower peers and blinds them for longer."""


class Awareness:
    """Our doubt in ourselves: 0 is none.

    >>> own = Awareness(); own.worse(2); own.better(); own.factor
    2
    """

    __slots__ = ("score",)

    def __init__(self) -> None:
        self.score = 0

    @property
    def factor(self) -> int:
        """Multiply a timeout by this."""
        return self.score + 1

    def worse(self, by: int = 1) -> None:
        """Something suggests that we are the slow one."""
        self.score = min(SCORE_MAX, self.score + by)

    def better(self) -> None:
        """A probe went well: we hear, and are heard."""
        if self.score:
            self.score -= 1
