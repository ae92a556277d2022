"""A plan for people: as text, or as a Graphviz picture.

Operators that are fused stand in one stage; `*` marks a stage that keeps state.
"""

from __future__ import annotations

from dataflow.app import App
from dataflow.graph import Node
from dataflow.plan import Plan, Stage, make_plan
from dataflow.schema import schema_text


def explain(app: App) -> str:
    """The stages of an app, who feeds them, and what they give."""
    plan = make_plan(app.graph)
    lines = [f"app {app.name}: {len(plan.stages)} stages, {len(plan.sinks)} sinks"]
    for stage in plan.stages:
        lines += _stage_lines(plan, stage)
    for name, edge in plan.sinks.items():
        lines.append(f"sink {name} <- {_port(plan, edge.node, edge.port)}: {schema_text(plan.schemas[name])}")
    return "\n".join(lines)


def explain_dot(app: App) -> str:
    """The same as a digraph."""
    plan = make_plan(app.graph)
    lines = ["digraph app {", "  rankdir=LR; node [shape=box];"]
    for stage in plan.stages:
        label = "\\n".join(_node_text(node).replace('"', "'") for node in stage.nodes)
        style = ", style=bold" if stage.nodes[-1].draft.stateful else ""
        lines.append(f'  s{stage.id} [label="{label}"{style}];')
        lines += [f"  s{edge.node} -> s{stage.id}{_edge_label(plan, edge.node, edge.port)};" for edge in stage.inputs]
    for at, (name, edge) in enumerate(plan.sinks.items()):
        lines.append(f'  o{at} [label="sink {name}", shape=oval];')
        lines.append(f"  s{edge.node} -> o{at}{_edge_label(plan, edge.node, edge.port)};")
    return "\n".join([*lines, "}"])


def _stage_lines(plan: Plan, stage: Stage) -> list[str]:
    mark = "*" if stage.nodes[-1].draft.stateful else " "
    inputs = ", ".join(_port(plan, edge.node, edge.port) for edge in stage.inputs)
    head = f"stage {stage.id}{mark}" + (f" <- {inputs}" if inputs else "")
    return [head, *(f"    {_node_text(node)}" for node in stage.nodes)]


def _node_text(node: Node) -> str:
    draft = node.draft
    parts = [f"source {node.name}" if node.kind == "source" else node.kind, draft.detail]
    if draft.stateful:
        parts.append(f"by {', '.join(draft.key) or 'one global key'}")
    if draft.parallelism > 1:
        parts.append(f"in {draft.parallelism} processes")
    return " ".join(part for part in parts if part) + f"  [line {node.place.line}]"


def _port(plan: Plan, stage: int, port: int) -> str:
    name = plan.stages[stage].nodes[-1].draft.ports[port]
    return f"{stage}.{name}" if name else f"{stage}"


def _edge_label(plan: Plan, stage: int, port: int) -> str:
    name = plan.stages[stage].nodes[-1].draft.ports[port]
    return f' [label="{name}"]' if name else ""
