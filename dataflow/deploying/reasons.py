"""Why an app is where it is, kept with it for whoever asks later: sentences of the placement, and the JOINs' ways.

Written once by whoever led the launch, as JSON; carried in the charter; read by a person. Nothing is decided by it, so
what does not fit is left out, the sentences of the last instances first, and what cannot be read is empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

REASONS_BYTES_MAX: Final = 24 * 1024
"""Some hundred instances; a report of a peer holds twice as much."""


@dataclass(frozen=True, slots=True)
class Way:
    """How one JOIN went, by the short names of the peers; its origin first."""

    source: str
    sink: str
    hops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reasons:
    """
    >>> reasons = Reasons({"0.0": "source"}, (Way("readings", "alerts", ("ab", "cd")),), {"ab": 0.25})
    >>> read_reasons(reasons.pack()) == reasons, read_reasons("rubbish")
    (True, Reasons(places={}, ways=(), loads={}))
    """

    places: Mapping[str, str]
    """By instance."""
    ways: Sequence[Way]
    loads: Mapping[str, float]
    """Of the hosts, when it was decided."""

    def pack(self) -> str:
        ways = [[it.source, it.sink, list(it.hops)] for it in self.ways]
        places = dict(self.places)
        while True:
            packed = json.dumps([places, ways, dict(self.loads)], separators=(",", ":"))
            if len(packed) <= REASONS_BYTES_MAX:
                return packed
            if places:
                for instance in list(places)[-max(1, len(places) // 8) :]:
                    del places[instance]
            elif ways:
                del ways[len(ways) // 2 :]
            else:
                return ""


def read_reasons(packed: str) -> Reasons:
    try:
        places, ways, loads = json.loads(packed) if packed else ({}, [], {})
        return Reasons(
            {str(at): str(why) for at, why in places.items()},
            tuple(_way(it) for it in ways),
            {str(peer): float(load) for peer, load in loads.items()},
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Reasons({}, (), {})


def _way(value: Any) -> Way:
    source, sink, hops = value
    return Way(str(source), str(sink), tuple(map(str, hops)))
