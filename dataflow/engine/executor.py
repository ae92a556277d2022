"""All instances of a plan in one thread, depth first: deterministic, for tests, the simulator and small runs.

Feed a source a message; what reaches sinks comes back as (sink, message), in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataflow.batches import to_rows
from dataflow.dead_letters import Letter
from dataflow.engine.instance import Instance
from dataflow.messages import Data, Message, Token
from dataflow.operators.base import Operator, Output
from dataflow.plan import Plan, Stage

Arrival = tuple[str, Message]
LETTERS_KEPT_MAX = 3  # enough to tell a person what is wrong; all of them are a stream


class Routes:
    """Where the ports of a plan lead, and how many rows went out of its side ports."""

    def __init__(self, plan: Plan) -> None:
        self._readers = {(edge.node, edge.port): to for edge, to in plan.readers().items()}
        self._sinks: dict[tuple[int, int], list[str]] = {}
        for name, edge in plan.sinks.items():
            self._sinks.setdefault((edge.node, edge.port), []).append(name)
        self._names = [stage.nodes[-1].draft.ports for stage in plan.stages]
        self.side_rows = {"late": 0, "dead_letters": 0}
        self.first_letters: list[Letter] = []

    def of(self, stage: int, port: int, message: Message) -> tuple[Sequence[str], Sequence[tuple[int, int]]]:
        """The sinks and the (stage, input) readers of a port."""
        if port and isinstance(message, Data) and self._names[stage][port] in self.side_rows:
            name = self._names[stage][port]
            self.side_rows[name] += message.batch.num_rows
            if name == "dead_letters" and len(self.first_letters) < LETTERS_KEPT_MAX:
                first = message.batch.slice(0, LETTERS_KEPT_MAX - len(self.first_letters))
                self.first_letters += [tuple(row.values()) for row in to_rows(first)]
        return self._sinks.get((stage, port), ()), self._readers.get((stage, port), ())


def last_token(outputs: Sequence[Output]) -> Token | None:
    """The token that was aligned, if these outputs end with one."""
    message = outputs[-1][1]
    return message if isinstance(message, Token) else None


class Executor:
    """`on_epoch(stage, instance, epoch)` is called at each aligned token, before anything behind it is read."""

    def __init__(
        self,
        plan: Plan,
        *,
        on_epoch: Callable[[int, Instance, int], None] | None = None,
        make: Callable[[Stage], Operator] | None = None,
    ) -> None:
        self.plan = plan
        self.instances = [Instance((make or Stage.make)(s), max(1, len(s.inputs)), s.ports) for s in plan.stages]
        self._routes = Routes(plan)
        self._on_epoch = on_epoch

    @property
    def side_rows(self) -> dict[str, int]:
        return self._routes.side_rows

    @property
    def first_letters(self) -> list[Letter]:
        return self._routes.first_letters

    def feed(self, source: str, message: Message) -> list[Arrival]:
        arrivals: list[Arrival] = []
        self._run(self.plan.sources[source], 0, message, arrivals)
        return arrivals

    def feed_side(self, source: str, port: int, message: Message) -> list[Arrival]:
        """What a connector itself sets aside enters behind the source operator."""
        arrivals: list[Arrival] = []
        self._pass_on(self.plan.sources[source], [(port, message)], arrivals)
        return arrivals

    def _run(self, stage: int, at: int, message: Message, arrivals: list[Arrival]) -> None:
        instance = self.instances[stage]
        outputs = instance.feed(at, message)
        while outputs:
            self._pass_on(stage, outputs, arrivals)
            token = last_token(outputs)
            if token is None:
                return
            if self._on_epoch:
                self._on_epoch(stage, instance, token.epoch)
            outputs = instance.release()

    def _pass_on(self, stage: int, outputs: list[Output], arrivals: list[Arrival]) -> None:
        for port, message in outputs:
            sinks, readers = self._routes.of(stage, port, message)
            arrivals += [(name, message) for name in sinks]
            for reader, at in readers:
                self._run(reader, at, message, arrivals)
