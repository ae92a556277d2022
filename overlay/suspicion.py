"""Decide when a silent peer is taken for dead.

A suspicion starts long and each independent witness shortens it, so a peer that many cannot reach goes soon,
and one that few cannot reach has all the time to refute:

    timeout = max - (max - min) * log(c + 1) / log(k + 1)        c witnesses beyond the first, k expected ones

Promises: nobody is removed on one peer's word. A confirmation needs our own failed probes *and* another
witness; without one, our own probes must have failed again and again over the whole maximum. A witness counts
once, however often it is heard of, and the deadline never moves away.

Pure: time comes in as an argument, the verdict goes out as a value.
Rejected: one fixed timeout (it punishes far zones); memberlist's rule that a lone observer waits the minimum
only (with two peers at 5 % loss a probe fails one time in ten, three in a row every few minutes).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log, log10

from overlay.ids import PeerId
from overlay.messages.probing import WITNESSES_MAX

WITNESSES_ENOUGH = 3
"""With so many witnesses (or all there are, in a smaller ring) the wait is the minimum. Fewer is faster, and
lets one bad switch with two peers behind it speak for the ring; more waits when the case is clear."""
OWN_FAILURES_MIN = 2
"""Failed probes of our own before we confirm with others: what we saw once may be a few lost packets."""
OWN_FAILURES_ALONE = 4
"""Failed probes of our own before we confirm with nobody's help. The maximum wait holds twelve
probes; at 5 % loss and with no helper each fails wrongly with 0.0975, all of them once in 10^12 cases."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The shortest and the longest time between suspicion and confirmation."""

    min_s: float
    max_s: float


def wait_for(peers: int, *, period_s: float, min_periods: float, max_factor: float) -> Wait:
    """How long to wait in a group of `peers` who watch each other.

    min = min_periods * max(1, log10(peers)) * period, max = max_factor * min. The logarithm is the number of
    rounds that a rumour, and its refutation, take to reach everyone.

    >>> wait_for(10, period_s=1.0, min_periods=2.0, max_factor=6.0)
    Wait(min_s=2.0, max_s=12.0)
    """
    min_s = min_periods * max(1.0, log10(max(1, peers))) * period_s
    return Wait(min_s, min_s * max_factor)


class Suspicion:
    """One case against one peer in one incarnation, as `me` sees it; `others` could also bear witness.

    >>> me, you, him = PeerId(1), PeerId(2), PeerId(3)
    >>> case = Suspicion(me, incarnation=0, now=0.0, wait=Wait(2.0, 12.0), others=5)
    >>> case.on_own_failure(); case.on_own_failure(); case.deadline, case.is_confirmed(11.9)
    (12.0, False)
    >>> case.hear([you, him, you]); round(case.deadline, 6), case.is_confirmed(2.1)
    (2.0, True)
    """

    __slots__ = ("_expected", "_hastened", "_me", "_wait", "deadline", "incarnation", "own_failures", "since",
                 "witnesses")  # fmt: skip

    def __init__(self, me: PeerId, *, incarnation: int, now: float, wait: Wait, others: int) -> None:
        assert 0.0 <= wait.min_s <= wait.max_s
        self._me = me
        self._wait = wait
        self._expected = min(WITNESSES_ENOUGH - 1, others)
        self._hastened = False
        self.incarnation = incarnation
        self.since = now
        self.own_failures = 0
        self.witnesses: tuple[PeerId, ...] = ()
        self.deadline = now + wait.max_s

    def hear(self, witnesses: Iterable[PeerId]) -> None:
        """Others say that they could not reach it. Only a first word counts."""
        for witness in witnesses:
            if witness != self._me:  # what we have seen we know ourselves
                self._add(witness)

    def on_own_failure(self, *, credible: bool = True) -> None:
        """We probed it and heard nothing. Not `credible`: we heard nothing from anybody, so it may be us."""
        self.own_failures += 1
        if credible:
            self._add(self._me)

    def hasten(self) -> None:
        """Somebody has confirmed it already: wait the minimum only. It is still one word, not a verdict."""
        self._hastened = True
        self._shorten()

    def _add(self, witness: PeerId) -> None:
        if witness in self.witnesses:
            return
        if len(self.witnesses) < WITNESSES_MAX:
            self.witnesses = (*self.witnesses, witness)
        elif witness == self._me:  # our own eyes always have a place
            self.witnesses = (*self.witnesses[:-1], witness)
        self._shorten()

    def _shorten(self) -> None:
        wait, expected = self._wait, self._expected
        beyond_first = min(len(self.witnesses) - 1, expected)
        if self._hastened:
            timeout_s = wait.min_s
        elif beyond_first < 1:
            timeout_s = wait.max_s
        else:
            timeout_s = wait.max_s - (wait.max_s - wait.min_s) * log(beyond_first + 1) / log(expected + 1)
        self.deadline = min(self.deadline, self.since + max(wait.min_s, timeout_s))

    @property
    def is_shared(self) -> bool:
        """Have we and at least one other both seen it fail?"""
        return len(self.witnesses) >= 2 and self._me in self.witnesses

    def is_confirmed(self, now: float) -> bool:
        """Is it time to take the peer for dead?"""
        if self.is_shared and self.own_failures >= OWN_FAILURES_MIN and now >= self.deadline:
            return True
        return self.own_failures >= OWN_FAILURES_ALONE and now >= self.since + self._wait.max_s
