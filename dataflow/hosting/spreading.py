"""To which copies of its readers a message goes: rows to one, marks to all.

A keyed reader's rows are split by their key. A reader without state takes all rows of one writer in one copy, the same
one for ever: so the rows of a writer stay in order, whatever lies behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dataflow.hosting.assignment import EdgeId, InstanceId
from dataflow.hosting.partition import split
from dataflow.messages import Data, Message
from dataflow.operators.base import Output
from dataflow.plan import Plan


@dataclass(frozen=True, slots=True)
class Way:
    """From a port to all copies of one reader: the numbers of those edges, by copy."""

    edges: tuple[int, ...]
    key: tuple[str, ...] | None
    copy: int  # who gets the rows if there is no key

    def spread(self, message: Message) -> Iterator[tuple[int, Message]]:
        if not isinstance(message, Data):
            yield from ((edge, message) for edge in self.edges)
        elif len(self.edges) == 1:
            yield self.edges[0], message
        elif self.key is None:
            yield self.edges[self.copy], message
        elif message.batch.num_rows:
            for edge, part in zip(self.edges, split(message, self.key, len(self.edges)), strict=True):
                if part is not None:
                    yield edge, part


class Spreading:
    """All ways out of one instance."""

    def __init__(self, plan: Plan, writer: InstanceId, edges: Mapping[int, EdgeId]) -> None:
        groups: dict[tuple[int, int, int], dict[int, int]] = {}
        for number, edge in edges.items():
            if edge.writer == writer:
                groups.setdefault((edge.port, edge.reader.stage, edge.input), {})[edge.reader.index] = number
        self._ways: dict[int, list[Way]] = {}
        for (port, stage, at), copies in sorted(groups.items()):
            numbers = tuple(copies[index] for index in sorted(copies))
            key = None if stage < 0 else plan.stages[stage].nodes[0].draft.key_of(at)
            self._ways.setdefault(port, []).append(Way(numbers, key, writer.index % len(numbers)))

    @property
    def edges(self) -> list[int]:
        return [edge for ways in self._ways.values() for way in ways for edge in way.edges]

    def spread(self, outputs: Iterable[Output]) -> Iterator[tuple[int, Message]]:
        """(edge, message), in the order in which each edge has to see them."""
        for port, message in outputs:
            for way in self._ways.get(port, ()):
                yield from way.spread(message)
