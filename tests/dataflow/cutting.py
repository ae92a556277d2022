"""Helpers for laws: random rows, random batch boundaries, state taken out and put back at every boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from dataflow import App
from dataflow.batches import Row, from_rows, to_rows
from dataflow.engine.executor import Executor
from dataflow.messages import Data, End, Token
from dataflow.plan import make_plan
from dataflow.state.snapshot import Stateful

Build = Callable[[App], Any]
Step = tuple[str, list[Row]]


def cuts(rows: Sequence[Row], places: Sequence[int]) -> list[list[Row]]:
    """The rows, cut at these places (taken modulo their number)."""
    edges = sorted({0, len(rows), *(place % (len(rows) + 1) for place in places)})
    return [list(rows[a:b]) for a, b in pairwise(edges)]


cut_places = st.lists(st.integers(0, 60), max_size=8)


class Session:
    """A running app that one can feed step by step, with its state in reach."""

    def __init__(self, build: Build) -> None:
        self.app = App("law")
        build(self.app)
        self.app.validate()
        self.plan = make_plan(self.app.graph)
        self.executor = Executor(self.plan)
        self.out: dict[str, list[Row]] = {name: [] for name in self.plan.sinks}
        self.schemas = {node.name: node.draft.outputs[0].schema for node in self.app.graph.of_kind("source")}

    def feed(self, source: str, rows: list[Row]) -> None:
        self._take(self.executor.feed(source, Data(from_rows(rows, self.schemas[source]))))

    def token(self, epoch: int) -> None:
        for source in self.plan.sources:
            self._take(self.executor.feed(source, Token(epoch)))

    def end(self) -> dict[str, list[Row]]:
        for source in self.plan.sources:
            self._take(self.executor.feed(source, End()))
        return self.out

    def stateful(self) -> list[Stateful]:
        return [i.operator for i in self.executor.instances if isinstance(i.operator, Stateful)]

    def fresh(self) -> list[Stateful]:
        made = [stage.make() for stage in self.plan.stages]
        return [operator for operator in made if isinstance(operator, Stateful)]

    def replace(self, operators: list[Stateful]) -> None:
        """Go on with other operators in place of the stateful ones, in order."""
        at = iter(operators)
        for instance in self.executor.instances:
            if isinstance(instance.operator, Stateful):
                instance.operator = next(at)

    def _take(self, arrivals: list[Any]) -> None:
        for name, message in arrivals:
            if isinstance(message, Data):
                self.out[name] += to_rows(message.batch)


def run_cut(build: Build, steps: Sequence[Step]) -> dict[str, list[Row]]:
    session = Session(build)
    for source, rows in steps:
        if rows:
            session.feed(source, rows)
    return session.end()


def bag(rows: Sequence[Row]) -> list[str]:
    """Rows without their order."""
    return sorted(repr(sorted(row.items())) for row in rows)
