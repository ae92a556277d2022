"""Questions under way, and the small machines that put them: deposits, retrievals, proposals, the keeper.

Each machine says whom to ask and is told what came of it. Here every question finds its way back to whoever put it,
and its number is one that nobody else on this peer uses.

Pure. A machine that is dropped is forgotten with its questions: answers that come later find nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dataflow.generations.effects import Ask, Effect
from overlay.contact import Contact
from overlay.frames import Buffer
from overlay.ids import PeerId

Answered = Callable[[Any, Buffer, float], list[Effect]]
Unanswered = Callable[[str, float], list[Effect]]
ContactOf = Callable[[PeerId], Contact | None]


class Errands:
    def __init__(self, numbers: Callable[[int], int]) -> None:
        """`numbers(n)`: the first of n question numbers that nobody else here uses."""
        self.numbers = numbers
        self._open: dict[int, tuple[Answered, Unanswered]] = {}

    def number(self) -> int:
        return self.numbers(1)

    def put(self, ask: Ask, answered: Answered, unanswered: Unanswered) -> Ask:
        self._open[ask.request.ask] = (answered, unanswered)
        return ask

    def answered(self, ask: int, reply: Any, body: Buffer, now: float) -> list[Effect]:
        found = self._open.pop(ask, None)
        return found[0](reply, body, now) if found else []

    def unanswered(self, ask: int, reason: str, now: float) -> list[Effect]:
        found = self._open.pop(ask, None)
        return found[1](reason, now) if found else []

    def carry(
        self,
        machine: Any,
        steps: Iterable[Any],
        done: Callable[[Any, float], list[Effect]],
        *,
        now: float,
        within_s: float,
        contact_of: ContactOf,
        has_bodies: bool = False,
    ) -> list[Effect]:
        """Put what a machine asks, and hand it the answers; whatever else it says is for `done`.

        `has_bodies`: its `answered` takes the bytes that came along.
        """
        out: list[Effect] = []
        for step in steps:
            request = getattr(step, "request", None)
            if request is None:
                out += done(step, now)
                continue

            def on(reply: Any, body: Buffer, at: float, ask: int = request.ask) -> list[Effect]:
                told = machine.answered(ask, reply, body) if has_bodies else machine.answered(ask, reply)
                return self.carry(
                    machine, told, done, now=at, within_s=within_s, contact_of=contact_of, has_bodies=has_bodies
                )

            def off(reason: str, at: float, ask: int = request.ask) -> list[Effect]:
                told = machine.unanswered(ask, reason)
                return self.carry(
                    machine, told, done, now=at, within_s=within_s, contact_of=contact_of, has_bodies=has_bodies
                )

            out.append(self.put(Ask(step.to, request, step.body, within_s, contact_of(step.to)), on, off))
        return out
