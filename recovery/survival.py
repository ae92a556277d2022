"""How likely is it that enough fragments are left, and how many holders may go?

A holder with a mean time between failures of MTBF is still there after t with probability exp(-t/MTBF). Holders
differ, so the number of fragments left follows a Poisson-binomial distribution; it is computed exactly, one holder
after the other. `t` is how long a lost fragment stays lost: the time until repair has put another in its place.

Pure arithmetic. It takes holders for independent, which is why nobody relies on it alone: holders.py spreads
fragments over zones, strategy.py wants room for two losses whatever the probability says. Rejected: a normal
approximation (wrong exactly in the tail that matters).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from math import exp, fsum


def alive_chance(*, window_s: float, mtbf_s: float) -> float:
    """
    >>> round(alive_chance(window_s=3600, mtbf_s=36_000), 4)
    0.9048
    """
    return exp(-window_s / mtbf_s) if mtbf_s > 0 else 0.0


def left_over(holders: Iterable[tuple[float, int]]) -> list[float]:
    """The probability of each number of fragments left, from none to all. A holder is (chance, how many it holds).

    >>> left_over([(0.5, 1), (0.5, 2)])
    [0.25, 0.25, 0.25, 0.25]
    """
    chances = [1.0]
    for chance, held in holders:
        stays = [0.0] * held + [it * chance for it in chances]
        goes = [it * (1.0 - chance) for it in chances] + [0.0] * held
        chances = [a + b for a, b in zip(stays, goes, strict=True)]
    return chances


def survival(holders: Iterable[tuple[float, int]], *, needed: int) -> float:
    """The probability that at least `needed` fragments are left.

    >>> round(survival([(0.9, 1)] * 6, needed=4), 5)
    0.98415
    """
    return min(1.0, fsum(left_over(holders)[needed:]))


def losses_survived(places: Sequence[Hashable], *, needed: int) -> int:
    """How many peers (or zones) may be lost at once, whichever they are. `places` says where each fragment is.

    -1 if even now there are too few.

    >>> losses_survived("abcdef", needed=4), losses_survived("aabcde", needed=4), losses_survived("abc", needed=4)
    (2, 1, -1)
    """
    left = len(places)
    lost = -1
    for held in (*sorted(Counter(places).values(), reverse=True), left + 1):
        if left < needed:
            break
        lost += 1
        left -= held
    return lost
