"""Put a question to another peer and wait for its answer.

Questions and answers are the messages of `dataflow.deploying.requests`, each the content of one DATA frame,
behind a mark that tells them from the rows of running apps. A question to ourselves takes the same way but for
the wire. Whoever does not answer in time is `Unanswered`; so is whoever cannot be reached.

Answering runs in a task of its own, bounded for each asker: building an app's share takes a while, and must delay
neither a heartbeat nor another asker.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import trio

from dataflow.deploying.requests import REPLIES, Declined, sentence_of
from dataflow.deploying.scheduling import SCHEDULING_REPLIES
from dataflow.generations.messages import EpochBegun
from overlay.contact import Contact
from overlay.frames import Buffer, Frame
from overlay.ids import PeerId
from overlay.links import UnreachableError
from overlay.wire import WireError, decode, encode
from recovery.custody import messages as custody
from recovery.register import messages as register

MARK: Final = b"?"
"""The first byte of every question and answer."""
QUESTIONS_MAX: Final = 256
"""Questions of one peer that are answered at once. One launch asks a few, a hundred launches at once some hundred."""

Question = Any
"""Any numbered message that somebody here answers."""
ALL_REPLIES: Final = (*REPLIES, *SCHEDULING_REPLIES, EpochBegun, *register.REPLIES, *custody.REPLIES)
SendData = Callable[[Contact, bytes, Sequence[Buffer]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and rows or bytes that are too large for a message."""

    reply: Any
    body: Sequence[Buffer] = ()


Answerer = Callable[[Contact, Any, Buffer], Awaitable[Answer]]
"""(who asks, what, the body that came along)"""


class Unanswered(Exception):  # noqa: N818 (the network's way, not a fault)
    """No answer came: the peer is gone, too slow, or has none."""


class Courier:
    """`answer` one kind of question by giving it a function; `ask` others theirs."""

    def __init__(
        self, me: Callable[[], Contact], send: SendData, answers: Mapping[type, Answerer], counters: Counter[str]
    ) -> None:
        self._me = me
        self._send = send
        self._answers = dict(answers)
        self._counters = counters
        self._waiting: dict[tuple[PeerId, int], tuple[trio.Event, list[Answer]]] = {}
        self._open: Counter[PeerId] = Counter()
        self._nursery: trio.Nursery | None = None
        self._last_ask = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer others until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def answer(self, kind: type, answerer: Answerer, *, is_default: bool = False) -> None:
        """Questions of this kind are answered so; `is_default`: unless somebody answers them already."""
        if not is_default or kind not in self._answers:
            self._answers[kind] = answerer

    def numbers(self, most: int) -> int:
        """The first of `most` question numbers that nobody else here will use."""
        self._last_ask += most
        return self._last_ask - most + 1

    async def ask(self, to: Contact, request: Question, body: Buffer = b"", *, within_s: float) -> Answer:
        """The answer to a numbered question; `Unanswered` says why there is none."""
        if to.peer == self._me().peer:
            return await self._answer_for(to, request, body)
        place = (to.peer, request.ask)
        is_answered, box = self._waiting[place] = (trio.Event(), [])
        try:
            with trio.fail_after(within_s):
                await self._send(to, MARK + encode(request), [body] if len(body) else [])
                await is_answered.wait()
                return box[0]
        except trio.TooSlowError:
            raise Unanswered(f"no answer within {within_s:g} s") from None
        except UnreachableError as error:
            raise Unanswered(str(error)) from None
        finally:
            del self._waiting[place]

    def take(self, sender: Contact, frame: Frame) -> None:
        """A question or an answer has come in."""
        message = decode(frame.content[len(MARK) :])
        if isinstance(message, ALL_REPLIES):
            waiting = self._waiting.get((sender.peer, message.ask))
            if waiting is None:
                self._counters["refused.answer-to-nothing"] += 1
                return
            waiting[1].append(Answer(message, (frame.body,)))
            waiting[0].set()
        elif type(message) not in self._answers or self._nursery is None:
            raise WireError("unexpected-message", f"{type(message).__name__} is no question")
        elif self._open[sender.peer] >= QUESTIONS_MAX:
            self._counters["refused.too-many-questions"] += 1
        else:
            self._open[sender.peer] += 1
            self._nursery.start_soon(self._reply_to, sender, message, frame.body)

    async def _reply_to(self, sender: Contact, request: Question, body: Buffer) -> None:
        try:
            answer = await self._answer_for(sender, request, body)
            await self._send(sender, MARK + encode(answer.reply), answer.body)
        except UnreachableError:
            self._counters["refused.asker-gone"] += 1
        finally:
            self._open[sender.peer] -= 1
            if not self._open[sender.peer]:
                del self._open[sender.peer]

    async def _answer_for(self, sender: Contact, request: Question, body: Buffer) -> Answer:
        try:
            return await self._answers[type(request)](sender, request, body)
        except Refusal as refusal:
            return Answer(Declined(request.ask, sentence_of(str(refusal))))


class Refusal(Exception):  # noqa: N818 (an answer)
    """Raise it while answering to decline, with the sentence that the asker shall read."""
