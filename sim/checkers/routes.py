"""Does every hop of a route bring the message strictly nearer to its key?

If so, no route can loop, and its length is bounded by the distance that it starts with.
"""

from collections.abc import Sequence
from itertools import pairwise

from overlay.ids import Key, PeerId


def standstill(key: Key, route: Sequence[PeerId]) -> PeerId | None:
    """The first peer on the route to which handing on was no progress; `None` if all were.

    >>> standstill(Key(0), [PeerId(Key(9)), PeerId(Key(4)), PeerId(Key(6))])
    6
    """
    for before, after in pairwise(route):
        if after ^ key >= before ^ key:
            return after
    return None
