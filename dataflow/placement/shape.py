"""What placement needs to know of an app: its stages, what each reads, how many copies; nothing of what they do.

Derived from a `Plan` by one function, so the simulator can place apps that were never written.

A stage is *keyed* if it holds state: its rows must meet. State without a key cannot be divided, so such a stage has one
copy. An operator's own `parallelism` counts worker processes on its peer and is no matter of placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from dataflow.plan import Plan
from overlay.ids import PeerId

COPIES_MAX: Final = 64
"""Copies of one stage: every writer has an edge to each, and edges grow with the square."""


class Kind(Enum):
    SOURCE = "source"
    STATELESS = "stateless"
    KEYED = "keyed"


@dataclass(frozen=True, slots=True)
class StageShape:
    """One stage: `inputs` are the stages that it reads."""

    kind: Kind
    name: str
    inputs: tuple[int, ...] = ()
    parallelism: int = 1
    memory_mib: int = 0
    """Memory that each copy asks for; 0 is what any slot has."""


@dataclass(frozen=True, slots=True)
class SinkShape:
    """A named end: which stage it reads, and the peer that it must be on, if any."""

    name: str
    reads: int
    pin: PeerId | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """Stages in topological order, as in the plan; sinks by name."""

    stages: tuple[StageShape, ...]
    sinks: tuple[SinkShape, ...]

    def __post_init__(self) -> None:
        for at, stage in enumerate(self.stages):
            if (stage.kind is Kind.SOURCE) != (not stage.inputs) or any(not 0 <= it < at for it in stage.inputs):
                raise ValueError(f"stage {at} ({stage.name}) must read stages before it; only a source reads none")
            if not 1 <= stage.parallelism <= COPIES_MAX:
                raise ValueError(f"stage {at} ({stage.name}) has 1 to {COPIES_MAX} copies, not {stage.parallelism}")
        if [it.name for it in self.sinks] != sorted({it.name for it in self.sinks}):
            raise ValueError("sinks are sorted by name, and no two have the same")
        if any(not 0 <= it.reads < len(self.stages) for it in self.sinks):
            raise ValueError("a sink must read a stage of the app")

    def sources_above(self) -> list[frozenset[int]]:
        """For each stage: the source stages whose rows reach it."""
        above: list[frozenset[int]] = []
        for at, stage in enumerate(self.stages):
            above.append(
                frozenset({at}) if not stage.inputs else frozenset().union(*(above[it] for it in stage.inputs))
            )
        return above

    def sinks_below(self) -> list[frozenset[str]]:
        """For each stage: the sinks that its rows reach."""
        below: list[set[str]] = [{it.name for it in self.sinks if it.reads == at} for at in range(len(self.stages))]
        for at in reversed(range(len(self.stages))):
            for before in self.stages[at].inputs:
                below[before] |= below[at]
        return [frozenset(it) for it in below]

    def is_behind_state(self) -> list[bool]:
        """For each stage: is it keyed itself, or fed by one that is? Then its rows have met already."""
        behind: list[bool] = []
        for stage in self.stages:
            behind.append(stage.kind is Kind.KEYED or any(behind[it] for it in stage.inputs))
        return behind


def shape_of(
    plan: Plan,
    *,
    pins: Mapping[str, PeerId] | None = None,
    copies: Mapping[int, int] | None = None,
    memory_mib: Mapping[int, int] | None = None,
) -> Shape:
    """The shape of a plan. `pins`: which sinks must be on which peers; `copies`: of which stages there are several;
    `memory_mib`: which stages need more than a slot has."""
    pinned, asked, needed = pins or {}, copies or {}, memory_mib or {}
    stages = []
    for stage in plan.stages:
        drafts = [node.draft for node in stage.nodes]
        stateful = [draft for draft in drafts if draft.stateful]
        many = asked.get(stage.id, 1)
        if stage.nodes[0].kind == "source":
            kind, many = Kind.SOURCE, 1
        elif stateful:
            kind, many = Kind.KEYED, many if all(draft.key for draft in stateful) else 1
        else:
            kind = Kind.STATELESS
        # Two inputs may read one stage: for placement that is one neighbour.
        inputs = tuple(sorted({edge.node for edge in stage.inputs}))
        stages.append(StageShape(kind, stage.name, inputs, many, needed.get(stage.id, 0)))
    sinks = [SinkShape(name, plan.sinks[name].node, pinned.get(name)) for name in sorted(plan.sinks)]
    return Shape(tuple(stages), tuple(sinks))
