"""Carry messages between processes: one connection for each pair of devices, made when needed.

`send` never waits. Without a connection it starts to dial and keeps a few messages until the far end has
said WELCOME; while an address is in its back-off, messages to it are dropped at once, for a message that is
seconds old says what is no longer true. What a node must know comes out as calls: a message, a body, a lost
link.

    sockets_trio  accept --\\
                            introduction_trio -> connection_trio (reader + writer task) -> GOODBYE
    dialling_trio   dial --/                     book_trio (who is connected by what)

An idle connection ends by GOODBYE: its side stops sending and listens on until the other has said all, so
nothing is lost, and nobody takes it for a crash. Any other end is reported as `closed`, a strong hint that
the process died.

Promises: a stranger costs one pending slot and one control message until the handshake's deadline; whatever
a far end does wrong ends (at most) its own connection, under a counted reason. Control frames overtake the
pieces of bodies (`outbox.py`). All decisions are elsewhere: who may enter in `admission.py`, what waits in
`outbox.py`, when to dial again in `backoff.py`.

Rejected: a connection for each virtual peer (a handshake and 60 KiB each); keep-alive messages of our own
(suspicion already probes).
"""

import socket
import ssl
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

import trio

from overlay.admission import Admission, Admitted, Refusal, Visitor
from overlay.book_trio import Book
from overlay.clock_trio import Clock
from overlay.connection_trio import Connection, refuse, session_frame
from overlay.contact import Contact
from overlay.dialling_trio import Attempt, Dialler
from overlay.frames import Buffer, Frame, FrameKind, control_frame, data_frame
from overlay.ids import PeerId, short
from overlay.introduction_trio import Introducer
from overlay.links import Address, Greeting, LinkMember, Reports, UnreachableError, Upcalls, address_text
from overlay.messages.session import Goodbye, Hello, Membership, TurnedAway, Welcome
from overlay.sockets_trio import accept
from overlay.streams_trio import PlainStream, Stream, TlsStream
from overlay.wire import WireError, decode, encode

TRUST_S: Final = 300.0
"""How long the certificate of an open connection is believed before we look at it again."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient a shell is."""

    dial_s: float = 3.0
    """To connect. A packet across the world and back, lost twice."""

    handshake_s: float = 5.0
    """From connected to admitted. A busy small device needs a second; a half-open stranger gets no more."""

    idle_s: float = 60.0
    """Without a frame in either direction. Longer saves handshakes (10 ms), shorter saves memory (60 KiB)."""

    goodbye_s: float = 5.0
    """What the far end has to say its last after our GOODBYE."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Both sides of mutual TLS; `streams_trio.tls_context` makes them."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Connections:
    """All connections of one process, for all of its virtual peers."""

    def __init__(
        self,
        *,
        admission: Admission,
        upcalls: Upcalls,
        tls: Tls | None,
        clock: Clock,
        rng: Random,
        counters: Counter[str] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter() if counters is None else counters
        self._admission = admission
        self._upcalls = upcalls
        self._tls = tls
        self._clock = clock
        self._timing = timing = timing or Timing()
        self._reports = reports = Reports(upcalls, self.counters)
        self._book = Book(admission, clock=clock, reports=reports)
        self._dialler = Dialler(self._book, clock=clock, rng=rng, reports=reports, dial_s=timing.dial_s)
        self._introducer = Introducer(admission, clock=clock, reports=reports, handshake_s=timing.handshake_s)
        self._serial = 0
        self._nursery: trio.Nursery | None = None
        self._is_ending = False

    # What the owner calls.

    async def run(
        self, listener: socket.socket, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve `listener` (see `open_listener`) until cancelled; then close it and all connections."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._dialler.open(nursery, self._live)
                nursery.start_soon(self._sweep)
                task_status.started()
                while True:
                    sock, address = await accept(listener, self.counters)
                    nursery.start_soon(self._live, sock, address, None)
        finally:
            self._dialler.close()
            self._nursery = None
            listener.close()

    def send(self, sender: PeerId, to: Contact, message: Any) -> None:
        """Hand `message` to a peer, some time, perhaps. Never blocks, never raises for the network's sake."""
        try:
            frame = control_frame(to.peer, sender, encode(message))
        except WireError as error:
            # Others' words fill our messages (routes, contacts): what does not fit is lost, not our process.
            self.counters[f"dropped.{error.reason}"] += 1
            return
        connection = self._book.best(to.peer)
        if connection is not None:
            self._book.put(connection, frame)
        else:
            self._dialler.send((to.host, to.port), to.peer, frame)

    async def send_data(self, sender: PeerId, to: Contact, control: bytes, body: Sequence[Buffer]) -> None:
        """Send a body, and wait for room if much is under way. `UnreachableError` if there is no way.

        The buffers are sent as they lie: they must not change any more.
        """
        connection = self._book.best(to.peer)
        if connection is None:
            await self.greet((to.host, to.port))
            connection = self._book.best(to.peer)
        if connection is None:
            raise UnreachableError(f"{short(to.peer)} does not live at {to.address}")
        await connection.put_data(data_frame(to.peer, sender, control, body))
        self.counters["data.sent"] += 1

    async def greet(self, address: Address) -> Greeting:
        """Who lives at `address`? Dials it unless it is connected; `UnreachableError` if nobody answers."""
        found = self._book.at(address)
        if found is None:
            if not await self._dialler.try_once(address):
                raise UnreachableError(f"{address_text(address)} did not answer a moment ago")
            found = self._book.at(address)
        if found is None:
            raise UnreachableError(f"{address_text(address)} does not answer")
        return Greeting(tuple(found.contacts.values()), found.is_member)

    @property
    def count(self) -> int:
        """How many connections to other devices are open."""
        return sum(1 for _ in self._book)

    def contacts(self) -> tuple[Contact, ...]:
        """Everybody who is connected now."""
        return self._book.contacts()

    def tell_membership(self, is_member: bool) -> None:
        """Whether we are in a ring is another matter than when we said HELLO."""
        for connection in self._book:
            connection.put(session_frame(Membership(is_member)))

    def drop_distrusted(self) -> None:
        """End the connections whose certificates have expired or were revoked meanwhile."""
        for serial, reason in self._admission.no_longer_trusted(self._clock.now()):
            connection = self._book[serial]
            refusal = Refusal(reason, "since it was admitted")
            self._reports.refused(connection.address, refusal, is_dialled=False)
            connection.end_at_once()

    async def say_goodbye(self) -> None:
        """End every connection in good order, after what is queued was sent. Bounded by `goodbye_s`."""
        self._is_ending = True
        self._dialler.close()
        for connection in self._book:
            self._say_goodbye(connection)
        with trio.move_on_after(self._timing.goodbye_s):
            await self._book.until_empty()

    # The life of a connection.

    async def _live(self, sock: socket.socket, address: Address, attempt: Attempt | None) -> None:
        """One socket from open to closed; `attempt` if we dialled it."""
        is_dialled = attempt is not None
        if self._is_ending and not is_dialled:
            sock.close()
            return
        serial = self._serial = self._serial + 1
        refusal = self._admission.on_open(serial, address[0], is_dialled=is_dialled)
        if refusal is not None:
            self._drop(sock, address, attempt, refusal)
            return
        try:
            stream = self._stream(sock, is_server=not is_dialled)
        except OSError as error:
            self._admission.on_close(serial)
            self._drop(sock, address, attempt, Refusal("half-open", f"hung up at once: {error}"))
            return
        try:
            connection = Connection(serial, stream, address, is_dialled=is_dialled, now=self._clock.now())
            outcome = await self._introducer.introduce(connection)
            if isinstance(outcome, Admitted):
                await self._converse(connection, outcome, attempt)
            elif isinstance(outcome, Visitor):
                if self._upcalls.visited is not None:
                    await self._upcalls.visited(stream, outcome)
            elif attempt is not None:
                self._dialler.failed(attempt, outcome.reason, outcome.detail, is_hint=outcome.is_hint)
        finally:
            self._admission.on_close(serial)
            stream.close()

    def _drop(self, sock: socket.socket, address: Address, attempt: Attempt | None, refusal: Refusal) -> None:
        """End a socket on which nothing was said yet."""
        sock.close()
        self._reports.refused(address, refusal, is_dialled=attempt is not None)
        if attempt is not None:
            self._dialler.failed(attempt, refusal.reason, refusal.detail, is_hint=False)

    def _stream(self, sock: socket.socket, *, is_server: bool) -> Stream:
        if self._tls is None:
            return PlainStream(sock)
        return TlsStream(sock, self._tls.server if is_server else self._tls.client, is_server=is_server)

    async def _converse(self, connection: Connection, admitted: Admitted, attempt: Attempt | None) -> None:
        """An admitted connection, until it ends."""
        self._book.welcome_in(connection, admitted)
        self._dialler.found_alive(connection)
        if attempt is not None:
            self._dialler.admitted(attempt, connection)
        reason = "closed"
        try:
            refusal = await connection.converse(partial(self._take, connection))
            if refusal is not None:
                reason = refusal.reason
                self._reports.refused(connection.address, refusal, is_dialled=connection.is_dialled)
            if connection.is_ending:
                reason = "goodbye"
        finally:
            self._book.see_out(connection, reason, is_crash=reason != "goodbye" and not self._is_ending)

    def _take(self, connection: Connection, frame: Frame) -> None:
        """One frame of an admitted device: for the connection itself, or for one of our peers."""
        connection.last_used = self._clock.now()
        is_control = frame.header.kind is FrameKind.CONTROL
        message: Any = None
        if is_control:
            try:
                message = decode(frame.content)
            except WireError as error:
                if error.reason != "unknown-message":
                    raise
                # A newer peer may know words that we do not; nobody relies on our understanding them.
                refusal = Refusal(error.reason, str(error))
                self._reports.refused(connection.address, refusal, is_dialled=connection.is_dialled)
                return
            if self._is_about_session(connection, message):
                return
        sender = connection.contacts.get(frame.sender)
        if sender is None:
            refuse("id-mismatch", f"speaks for {short(frame.sender)}, which it did not introduce")
        self.counters["received" if is_control else "data.received"] += 1
        if is_control:
            self._upcalls.received(frame.to, sender, message)
        else:
            frame.check_body()
            self._upcalls.received_data(frame.to, sender, frame)

    def _is_about_session(self, connection: Connection, message: Any) -> bool:
        """Heed what is said about the connection itself. False if `message` is for one of our peers."""
        match message:
            case Goodbye():
                self._admission.on_ending(connection.serial)
                connection.on_goodbye()
            case Membership():
                connection.is_member = message.is_member
                self._upcalls.observed(LinkMember(tuple(connection.contacts.values()), message.is_member))
            case Hello() | Welcome() | TurnedAway():
                refuse("duplicate", f"{type(message).__name__} in the middle of a conversation")
            case _:
                return False
        return True

    # Endings.

    def _say_goodbye(self, connection: Connection) -> None:
        if connection.said_goodbye or self._nursery is None:
            return
        connection.said_goodbye = True
        self._admission.on_ending(connection.serial)
        connection.put(session_frame(Goodbye()))
        self._nursery.start_soon(self._close_later, connection)

    async def _close_later(self, connection: Connection) -> None:
        with trio.move_on_after(self._timing.goodbye_s):
            await self._book.until_closed(connection)
        connection.end_at_once()

    async def _sweep(self) -> None:
        """End what is idle or no longer trusted, forget addresses nobody asks for."""
        trusted_until = 0.0
        while True:
            await trio.sleep(self._timing.idle_s / 4)
            now = self._clock.now()
            if now >= trusted_until:
                self.drop_distrusted()
                trusted_until = now + TRUST_S
            for connection in self._book:
                if now - connection.last_used >= self._timing.idle_s and connection.has_said_all:
                    self._say_goodbye(connection)
            self._dialler.forget_old(now)
