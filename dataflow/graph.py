"""The graph of an app: operators as nodes, streams as edges between their ports.

An operator file turns what flows in (`Flow`) into a `Draft`; adding it to a graph gives it a number and inputs.
A draft carries a factory, not an operator: every peer, thread and test makes instances of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from dataflow.errors import AppError, Place
from dataflow.operators.base import Operator
from dataflow.times import TimeColumn


@dataclass(frozen=True, slots=True)
class Flow:
    """What a stream carries: its columns, and which of them is event time (if any is left)."""

    schema: pa.Schema
    time: TimeColumn | None = None

    def with_schema(self, schema: pa.Schema) -> Flow:
        """The same flow after a change of columns; event time stays while its column does."""
        time = self.time
        kept = time is not None and time.name in schema.names and schema.field(time.name).type == time.kind
        return Flow(schema, time if kept else None)


@dataclass(frozen=True, slots=True)
class Draft:
    """An operator before it has a place in a graph."""

    kind: str
    outputs: tuple[Flow, ...]
    make: Callable[[], Operator]
    detail: str = ""
    stateful: bool = False
    fusable: bool = False
    key: tuple[str, ...] = ()
    right_key: tuple[str, ...] | None = None  # of the second input, if its columns have other names
    ports: tuple[str, ...] = ("",)
    parallelism: int = 1

    def key_of(self, at: int) -> tuple[str, ...] | None:
        """The key columns of an input, if rows of one key must meet in one instance."""
        if not self.stateful:
            return None
        return self.right_key if at == 1 and self.right_key is not None else self.key


@dataclass(frozen=True, slots=True)
class Edge:
    """One output port of a node."""

    node: int
    port: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of an app."""

    id: int
    name: str
    draft: Draft
    inputs: tuple[Edge, ...]
    place: Place

    @property
    def kind(self) -> str:
        return self.draft.kind


class Graph:
    """Nodes in the order they were added, which is a topological order."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, name: str, draft: Draft, inputs: tuple[Edge, ...], place: Place) -> Node:
        node = Node(len(self.nodes), name, draft, inputs, place)
        self.nodes.append(node)
        return node

    def of_kind(self, kind: str) -> list[Node]:
        return [node for node in self.nodes if node.kind == kind]

    def consumers(self, edge: Edge) -> list[tuple[Node, int]]:
        """Who reads a port, and on which input."""
        return [(node, at) for node in self.nodes for at, source in enumerate(node.inputs) if source == edge]


def check(graph: Graph, app: str) -> None:
    """What can only be seen on the whole graph: ends, names, cycles."""
    if not graph.of_kind("source"):
        raise AppError(f'app "{app}" has no source; begin with app.source(...)')
    if not graph.of_kind("sink"):
        raise AppError(f'app "{app}" has no sink; end a stream with .sink("name")')
    for kind in ("source", "sink"):
        seen: dict[str, Node] = {}
        for node in graph.of_kind(kind):
            if node.name in seen:
                first = seen[node.name].place
                raise AppError(f'two {kind}s are named "{node.name}" (the other is on {first})', place=node.place)
            seen[node.name] = node
    _check_cycles(graph)


def _check_cycles(graph: Graph) -> None:
    waiting = {node.id: {edge.node for edge in node.inputs} for node in graph.nodes}
    while waiting:
        ready = [node for node, inputs in waiting.items() if not inputs & waiting.keys()]
        if not ready:
            node = graph.nodes[min(waiting)]
            raise AppError(f'operator "{node.name}" feeds itself: a cycle has no beginning', place=node.place)
        for node_id in ready:
            del waiting[node_id]
