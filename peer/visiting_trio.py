"""Answer a person who asks over the peers' own TLS port, with a certificate instead of a login: the end of `far.py`.

One question, one answer, in the form of the control socket, on a connection that is no peer's (`Admission.on_visit`).
What may be asked follows from the role in the certificate: a viewer looks, an operator also launches and ends apps.
What concerns the device itself (let it leave, what is behind its sources) stays with whoever sits there.

Promises: a visitor that is slow, rude or too many ends its own visit, counted, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import trio

from overlay.admission import Visitor
from overlay.streams_trio import Stream, StreamBrokenError
from peer.control import ANSWER_BYTES_MAX, LENGTH_BYTES, QUESTION_BYTES_MAX, length_of, pack, unpack
from peer.control_trio import QUESTION_S_MAX, Answers, reply_to

VISITORS_MAX: Final = 8
"""At once. Well below the connections that may be pending, among which they count: joins shall not wait for people."""
ANSWER_S_MAX: Final = 30.0
"""To take an answer of 16 MiB over a slow link."""
LOOK_BYTES_MAX: Final = 64 * 1024
"""The question of one who only looks."""
LOOKING: Final = frozenset(
    {"status", "peers", "route", "apps", "app", "explain", "logs", "tail", "offers", "metrics"}
)
MAY_ASK: Final = {"viewer": LOOKING, "operator": LOOKING | {"launch", "end"}}


class Visits:
    def __init__(self, answers: Answers, counters: Counter[str]) -> None:
        self._answers = answers
        self._counters = counters
        self._here = 0

    async def receive(self, stream: Stream, visitor: Visitor) -> None:
        """For `Runtime.on_visit`."""
        self._counters["visits"] += 1
        self._here += 1
        try:
            with trio.fail_after(QUESTION_S_MAX):
                most = QUESTION_BYTES_MAX if visitor.role == "operator" else LOOK_BYTES_MAX
                head = await _receive(stream, LENGTH_BYTES)
                question = unpack(await _receive(stream, length_of(head, bytes_max=most)))
            reply = pack(await self._reply(question, visitor), bytes_max=ANSWER_BYTES_MAX)
            with trio.fail_after(ANSWER_S_MAX):
                await stream.send_buffers([reply])
                await _until_gone(stream)
        except (ValueError, RecursionError, trio.TooSlowError, StreamBrokenError):
            self._counters["refused.bad-visit"] += 1
        finally:
            self._here -= 1

    async def _reply(self, question: dict[str, Any], visitor: Visitor) -> dict[str, Any]:
        verb, arguments = question.get("verb"), question.get("arguments")
        if self._here > VISITORS_MAX:
            return _no("Too many people ask this peer at once.", "Try again in a moment, or ask another peer.")
        if verb not in MAY_ASK[visitor.role] and verb in self._answers:
            roles = [role for role, verbs in MAY_ASK.items() if verb in verbs]
            way_out = f"Ask with the folder of an {roles[0]}." if roles else "Ask on the device itself, without --at."
            return _no(f"{visitor.name} is {_a(visitor.role)} and may not ask for {verb!r} from afar.", way_out)
        if isinstance(arguments, dict) and arguments.pop("is_here", False):
            return _no("What is behind the sources of a device stays there.", "Ask on the device itself, without --at.")
        return await reply_to(question, self._answers)


def _no(fact: str, way_out: str) -> dict[str, Any]:
    return {"ok": False, "error": fact, "way_out": way_out}


def _a(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"


async def _receive(stream: Stream, size: int) -> bytes:
    received = bytearray(size)
    await stream.receive_exactly_into(memoryview(received))
    return bytes(received)


async def _until_gone(stream: Stream) -> None:
    """The visitor closes first: if we did, bytes that it has not read could be lost."""
    try:
        await stream.receive_exactly_into(memoryview(bytearray(1)))
    except StreamBrokenError:
        return
