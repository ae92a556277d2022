"""From graph to stages: what runs as one, and who feeds whom.

Runs of fusable operators become one stage; so does every other operator by itself. A stage is what a thread,
a worker process or (later) a peer hosts. Sinks are not stages: they are named ends of edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from dataflow.graph import Edge, Graph, Node
from dataflow.operators.base import Operator, Stateless
from dataflow.operators.chain import Chain


@dataclass(frozen=True, slots=True)
class Stage:
    """Operators that run as one instance. Inputs are ports of other stages."""

    id: int
    nodes: tuple[Node, ...]
    inputs: tuple[Edge, ...]
    meets_itself: bool = False  # its rows reach some stage on several ways

    @property
    def name(self) -> str:
        return " + ".join(node.name if node.kind == "source" else node.kind for node in self.nodes)

    @property
    def ports(self) -> int:
        return len(self.nodes[-1].draft.outputs)

    def make(self) -> Operator:
        if len(self.nodes) == 1:
            operator = self.nodes[0].draft.make()
            operator.meets_itself = self.meets_itself
            return operator
        return Chain([cast(Stateless, node.draft.make()) for node in self.nodes])


@dataclass(frozen=True, slots=True)
class Plan:
    """Stages in topological order; sources by name; sinks by name with the port that feeds them."""

    stages: tuple[Stage, ...]
    sources: dict[str, int]
    sinks: dict[str, Edge]
    schemas: dict[str, pa.Schema]

    def readers(self) -> dict[Edge, list[tuple[int, int]]]:
        """For each port: the stages (and their inputs) that read it."""
        out: dict[Edge, list[tuple[int, int]]] = {}
        for stage in self.stages:
            for at, edge in enumerate(stage.inputs):
                out.setdefault(edge, []).append((stage.id, at))
        return out


def make_plan(graph: Graph) -> Plan:
    """Fuse what can be fused. Every node but a sink is in exactly one stage."""
    runs: list[list[Node]] = []
    run_of: dict[int, int] = {}
    for node in graph.nodes:
        if node.kind == "sink":
            continue
        before = _fusable_before(graph, node)
        if before is not None:
            run_of[node.id] = run_of[before.id]
            runs[run_of[before.id]].append(node)
        else:
            run_of[node.id] = len(runs)
            runs.append([node])
    inputs = [tuple(Edge(run_of[edge.node], edge.port) for edge in run[0].inputs) for run in runs]
    stages = tuple(Stage(at, tuple(run), inputs[at], _meets_itself(at, inputs)) for at, run in enumerate(runs))
    sinks = {node.name: node.inputs[0] for node in graph.of_kind("sink")}
    return Plan(
        stages,
        {node.name: run_of[node.id] for node in graph.of_kind("source")},
        {name: Edge(run_of[edge.node], edge.port) for name, edge in sinks.items()},
        {name: graph.nodes[edge.node].draft.outputs[edge.port].schema for name, edge in sinks.items()},
    )


def _meets_itself(start: int, inputs: list[tuple[Edge, ...]]) -> bool:
    """Whether two inputs of one stage can be reached from here."""
    reached = {start}
    for at in range(start + 1, len(inputs)):
        ways = sum(edge.node in reached for edge in inputs[at])
        if ways > 1:
            return True
        if ways:
            reached.add(at)
    return False


def _fusable_before(graph: Graph, node: Node) -> Node | None:
    """The operator this one can be fused behind: stateless too, and read by nobody else."""
    if not node.draft.fusable:
        return None
    edge = node.inputs[0]
    before = graph.nodes[edge.node]
    alone = len(graph.consumers(edge)) == 1
    return before if before.draft.fusable and alone else None
