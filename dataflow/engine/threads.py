"""Stages on threads of their own, with bounded inboxes between them: the shell around instances.

Arrow and numpy let go of the interpreter lock in their kernels, so vectorised stages do run side by side.
A full inbox blocks its writer, which slows the source; memory does not grow. What waits in an inbox is put
together before it is worked on: small batches when quiet, large ones when busy.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection

from dataflow.dead_letters import Letter
from dataflow.engine.executor import Routes, last_token
from dataflow.engine.instance import Instance
from dataflow.engine.merging import BATCH_ROWS_MAX, together
from dataflow.messages import Data, Message, Watermark
from dataflow.operators.base import MAIN, Operator, Output
from dataflow.plan import Plan, Stage

INBOX_MESSAGES_MAX = 8  # one being worked on, a few to be put together; more would only add latency
Inbound = tuple[int, Message]


class Stopped(Exception):  # noqa: N818 (not an error: another stage has failed)
    """The run is over; let go."""


class Inbox:
    """A bounded queue of (input, message) that merges neighbouring batches of one input when read.

    Where rows behind the watermark are marked (`marked` inputs), batches are put together over the watermarks between
    them, as if the source had read them at once: otherwise every batch with event time would travel alone.
    """

    def __init__(self, marked: Collection[int] = ()) -> None:
        self._marked = marked
        self._items: deque[Inbound] = deque()
        self._changed = threading.Condition()
        self._stopped = False

    def put(self, item: Inbound) -> None:
        with self._changed:
            while len(self._items) >= INBOX_MESSAGES_MAX and not self._stopped:
                self._changed.wait()
            if self._stopped:
                raise Stopped
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> Inbound:
        with self._changed:
            while not self._items and not self._stopped:
                self._changed.wait()
            if self._stopped:
                raise Stopped
            source, message = self._items.popleft()
            parts = [message] if isinstance(message, Data) else []
            rows = parts[0].batch.num_rows if parts else 0
            watermark: Watermark | None = None
            while parts and self._items and self._items[0][0] == source:
                following = self._items[0][1]
                if isinstance(following, Watermark) and source in self._marked:
                    watermark = following
                    self._items.popleft()
                    continue
                if not isinstance(following, Data) or rows + following.batch.num_rows > BATCH_ROWS_MAX:
                    break
                self._items.popleft()
                parts.append(following)
                rows += following.batch.num_rows
            if watermark:
                self._items.appendleft((source, watermark))
            self._changed.notify_all()
        return (source, together(parts)) if len(parts) > 1 else (source, message)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class ThreadedExecutor:
    """Feed sources from one thread; arrivals at sinks are called back from the stages' threads."""

    def __init__(
        self,
        plan: Plan,
        on_arrival: Callable[[str, Message], None],
        *,
        make: Callable[[Stage], Operator] | None = None,
    ) -> None:
        self._routes = Routes(plan)
        self._plan = plan
        self._on_arrival = on_arrival
        self.instances = [Instance((make or Stage.make)(s), max(1, len(s.inputs)), s.ports) for s in plan.stages]
        marked = self._marked_stages()
        self._inboxes = {
            stage.id: Inbox([at for at, edge in enumerate(stage.inputs) if edge.node in marked and edge.port == MAIN])
            for stage in plan.stages
            if stage.inputs
        }
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, args=(stage,), name=f"stage {plan.stages[stage].name}", daemon=True)
            for stage in self._inboxes
        ]
        for thread in self._threads:
            thread.start()

    def _marked_stages(self) -> set[int]:
        """Stages whose rows say themselves if they are behind the watermark: sources, and what works row by row."""
        marked: set[int] = set()
        for stage, instance in zip(self._plan.stages, self.instances, strict=True):
            if not stage.inputs and not stage.meets_itself:
                marked.add(stage.id)
            elif len(stage.inputs) == 1 and stage.inputs[0].node in marked and stage.inputs[0].port == MAIN:
                marked |= {stage.id} if instance.operator.carries_behind else set()
        return marked

    @property
    def side_rows(self) -> dict[str, int]:
        return self._routes.side_rows

    @property
    def first_letters(self) -> list[Letter]:
        return self._routes.first_letters

    def feed(self, source: str, message: Message) -> None:
        """Sources do little, so they run on the feeding thread."""
        stage = self._plan.sources[source]
        try:
            self._step(stage, 0, message)
        except Stopped:
            self._raise()

    def feed_side(self, source: str, port: int, message: Message) -> None:
        try:
            self._pass_on(self._plan.sources[source], [(port, message)])
        except Stopped:
            self._raise()

    def close(self) -> None:
        """Wait until every stage has seen the end."""
        for thread in self._threads:
            thread.join()
        self._raise()

    def stop(self) -> None:
        for inbox in self._inboxes.values():
            inbox.stop()
        for thread in self._threads:
            thread.join()

    def _raise(self) -> None:
        if self._failure is not None:
            self.stop()
            raise self._failure

    def _work(self, stage: int) -> None:
        inbox = self._inboxes[stage]
        try:
            while not self.instances[stage].ended:
                self._step(stage, *inbox.get())
        except Stopped:
            pass
        except BaseException as error:
            self._failure = self._failure or error
            for each in self._inboxes.values():
                each.stop()

    def _step(self, stage: int, at: int, message: Message) -> None:
        instance = self.instances[stage]
        outputs = instance.feed(at, message)
        while outputs:
            self._pass_on(stage, outputs)
            outputs = instance.release() if last_token(outputs) else []

    def _pass_on(self, stage: int, outputs: list[Output]) -> None:
        for port, message in outputs:
            sinks, readers = self._routes.of(stage, port, message)
            for name in sinks:
                self._on_arrival(name, message)
            for reader, at in readers:
                self._inboxes[reader].put((at, message))
