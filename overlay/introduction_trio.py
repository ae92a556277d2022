"""From a connected socket to a verdict: TLS handshake, then HELLO and WELCOME, within one deadline.

    dialled    handshake -> say HELLO    -> WELCOME or TURNED_AWAY
    accepted   handshake -> await HELLO  -> WELCOME or TURNED_AWAY
                         -> await VISIT  -> the same, for a person with one question

Who may enter is decided in `admission.py`; here is only how that is asked and told. Promise: every
introduction that comes to nothing is counted under its reason, and a far end that speaks our protocol is told
the reason too, for an honest one may need to know.
"""

import ssl
from dataclasses import dataclass
from typing import Any, Final

import trio

from overlay.admission import Admission, Admitted, Refusal, Visitor
from overlay.clock_trio import Clock
from overlay.connection_trio import Connection, RefusedError, refuse, session_frame
from overlay.links import Reports
from overlay.messages.session import Hello, TurnedAway, Visit, Welcome
from overlay.streams_trio import StreamBrokenError, handshake_failure
from overlay.wire import WireError, decode

_LAST_WORD_S: Final = 1.0
"""How long we wait for a refused far end to take our reason."""
_DETAIL_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an introduction came to nothing. `is_hint`: it says something about the peer, not the network."""

    reason: str
    detail: str
    is_hint: bool = True


class _TurnedAwayError(Exception):
    """The far end ends this connection, and told us why."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Introducer:
    def __init__(self, admission: Admission, *, clock: Clock, reports: Reports, handshake_s: float) -> None:
        self._admission = admission
        self._clock = clock
        self._reports = reports
        self._handshake_s = handshake_s

    async def introduce(self, connection: Connection) -> Admitted | Visitor | Failure:
        """Who is there, or why not."""
        try:
            with trio.fail_after(self._handshake_s):
                await connection.stream.handshake()
                if connection.is_dialled:
                    return await self._say_hello(connection)
                return await self._answer_hello(connection)
        except trio.TooSlowError:
            failure = Failure("half-open", "no HELLO within the deadline", is_hint=False)
        except ssl.SSLError as error:
            failure = Failure(handshake_failure(error), str(error))
        except WireError as error:
            failure = Failure(error.reason, str(error))
        except StreamBrokenError as error:
            # A far end that closes before it is admitted: its verdict if we dialled, a whim if not.
            failure = Failure("turned-away" if connection.is_dialled else "half-open", str(error))
        except _TurnedAwayError as turned:
            self._reports.counters[f"turned-away.{turned.reason}"] += 1
            return Failure(turned.reason, turned.detail)
        except RefusedError as refused:
            failure = Failure(refused.refusal.reason, refused.refusal.detail)
            await _turn_away(connection, refused.refusal)
        refusal = Refusal(failure.reason, failure.detail)
        self._reports.refused(connection.address, refusal, is_dialled=connection.is_dialled)
        return failure

    async def _say_hello(self, connection: Connection) -> Admitted:
        await connection.stream.send_buffers([session_frame(self._admission.hello())])
        message = await _hear(connection)
        if isinstance(message, TurnedAway):
            raise _TurnedAwayError(message.reason, message.detail)
        if not isinstance(message, Welcome):
            refuse("no-hello", f"{type(message).__name__} instead of a welcome")
        certificate = connection.stream.peer_certificate()
        verdict = self._admission.on_welcome(connection.serial, message, certificate=certificate, now=self._clock.now())
        if isinstance(verdict, Refusal):
            raise RefusedError(verdict)
        return verdict

    async def _answer_hello(self, connection: Connection) -> Admitted | Visitor:
        message = await _hear(connection)
        if isinstance(message, Visit):
            return await self._let_in(connection, message)
        if not isinstance(message, Hello):
            refuse("no-hello", f"{type(message).__name__} instead of a hello")
        certificate = connection.stream.peer_certificate()
        verdict = self._admission.on_hello(connection.serial, message, certificate=certificate, now=self._clock.now())
        if isinstance(verdict, Refusal):
            raise RefusedError(verdict)
        # Queued, not sent: so that nothing may happen between this verdict and its consequences.
        connection.put(session_frame(self._admission.welcome()))
        return verdict


    async def _let_in(self, connection: Connection, visit: Visit) -> Visitor:
        certificate = connection.stream.peer_certificate()
        verdict = self._admission.on_visit(visit, certificate=certificate, now=self._clock.now())
        if isinstance(verdict, Refusal):
            raise RefusedError(verdict)
        await connection.stream.send_buffers([session_frame(self._admission.welcome())])
        return verdict


async def _hear(connection: Connection) -> Any:
    return decode((await connection.next_frame()).content)


async def _turn_away(connection: Connection, refusal: Refusal) -> None:
    """Tell the far end why, and give it a moment to read it."""
    frame = session_frame(TurnedAway(refusal.reason, refusal.detail[:_DETAIL_CHARS_MAX]))
    with trio.move_on_after(_LAST_WORD_S):
        try:
            await connection.stream.send_buffers([frame])
            await connection.stream.receive_exactly_into(memoryview(bytearray(1)))
        except StreamBrokenError:
            pass
