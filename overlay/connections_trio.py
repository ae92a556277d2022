"""Carry messages between processes: one connection for each pair of devices, made when needed.

`send` never waits. Without a connection it starts to dial and keeps a few messages until the far end has
said WELCOME; while an address is in its back-off, messages to it are dropped at once, for a message that is
seconds old says what is no longer true. What a node must know comes out as calls: a message, a body, a lost
link.

    accept --\\
              handshake -> HELLO / WELCOME -> reader task + writer task -> GOODBYE
    dial   --/

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

import errno
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NoReturn

import trio

from overlay.admission import LOOPBACK_SUBNET, Admission, Admitted, Refusal, subnet_of
from overlay.backoff import BACKOFF_MAX_S, Backoff
from overlay.clock_trio import Clock
from overlay.contact import Contact
from overlay.frames import (
    BODY_BYTES_MAX,
    NOBODY,
    Buffer,
    Frame,
    FrameKind,
    FrameReader,
    control_frame,
    data_frame,
)
from overlay.ids import PeerId, short
from overlay.messages.session import Goodbye, Hello, Membership, TurnedAway, Welcome
from overlay.outbox import Outbox
from overlay.streams_trio import PlainStream, Stream, StreamBrokenError, TlsStream, handshake_failure
from overlay.wire import WireError, decode, encode

Address = tuple[str, int]

WAITING_FRAMES_MAX: Final = 64
"""Messages kept for one address while it is dialled: more than a node says to a peer within a handshake."""
DIALS_MAX: Final = 64
"""Dials under way at once. A joining peer meets some fifty others; more would only choke a small CPU."""
TRUST_S: Final = 300.0
"""How long the certificate of an open connection is believed before we look at it again."""
BACKLOG: Final = 128
"""Connections that the kernel holds for us while we are busy with a handshake."""


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


class UnreachableError(Exception):
    """Data could not be handed to a peer: no connection came about, or it broke."""


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A device was admitted. An observation, for logs and for the cache of contacts."""

    contacts: tuple[Contact, ...]
    is_dialled: bool
    is_member: bool


@dataclass(frozen=True, slots=True)
class LinkMember:
    """A connected device has entered a ring, or has left it."""

    contacts: tuple[Contact, ...]
    is_member: bool


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The last connection to a device ended; `reason` is `closed`, or why we ended it."""

    contacts: tuple[Contact, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class LinkRefused:
    """We refused somebody, or (`is_dialled`) did not get where we dialled."""

    address: str
    is_dialled: bool
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who lives at an address, and whether it is in a ring, by its last word."""

    contacts: tuple[Contact, ...]
    is_member: bool


@dataclass(slots=True, kw_only=True)
class Upcalls:
    """What `Connections` tells its owner. None of these may block."""

    received: Callable[[PeerId, Contact, Any], None]
    """(to, sender, message)"""
    received_data: Callable[[PeerId, Contact, Frame], None]
    """(to, sender, frame)"""
    link_lost: Callable[[PeerId, str], None]
    """(peer, "closed" or "refused")"""
    observed: Callable[[Any], None] = field(default=lambda _: None)


class _RefusedError(Exception):
    """We end this connection."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


class _TurnedAwayError(Exception):
    """The far end ends this connection, and told us why."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def _refuse(reason: str, detail: str) -> NoReturn:
    raise _RefusedError(Refusal(reason, detail))


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why an introduction came to nothing. `is_hint`: it says something about the peer, not the network."""

    reason: str
    detail: str
    is_hint: bool = True


class _Connection:
    """One socket between two devices, and what waits to be sent on it."""

    def __init__(self, serial: int, stream: Stream, address: Address, *, is_dialled: bool, now: float) -> None:
        self.serial = serial
        self.stream = stream
        self.address = address
        self.is_dialled = is_dialled
        self.last_used = now
        self.reader = FrameReader(body_bytes_max=0)
        self.outbox = Outbox()
        self.device: PeerId | None = None
        self.contacts: dict[PeerId, Contact] = {}
        self.is_member = False
        self.said_goodbye = False
        self.heard_goodbye = False
        self.is_closed = False
        self.scope = trio.CancelScope()
        self._something_to_send = trio.lowlevel.ParkingLot()
        self._room_for_data = trio.lowlevel.ParkingLot()

    def put(self, frame: bytes) -> int:
        dropped = self.outbox.put_control(frame)
        self._something_to_send.unpark_all()
        return dropped

    async def put_data(self, portions: Any) -> None:
        while not self.is_closed and not self.outbox.has_room_for_data:
            await self._room_for_data.park()
        if self.is_closed:
            raise UnreachableError("the connection broke before the data was sent")
        self.outbox.put_data(portions)
        self._something_to_send.unpark_all()

    async def next_frame(self) -> Frame:
        while True:
            space = self.reader.space()
            await self.stream.receive_exactly_into(space)
            frames = self.reader.advance(len(space))
            if frames:
                return frames[0]

    async def write_until_done(self) -> None:
        """Send what comes, until the far end has said GOODBYE and we have said all."""
        while True:
            buffers = self.outbox.next_buffers()
            if buffers:
                await self.stream.send_buffers(buffers)
                if self.outbox.has_room_for_data:
                    self._room_for_data.unpark_all()
            elif self.heard_goodbye:
                return
            else:
                await self._something_to_send.park()

    def on_goodbye(self) -> None:
        self.heard_goodbye = True
        self._something_to_send.unpark_all()

    def on_closed(self) -> None:
        self.is_closed = True
        self._room_for_data.unpark_all()


class _Dial:
    """What we know of one address: our patience with it, and what waits for it."""

    def __init__(self) -> None:
        self.backoff = Backoff()
        self.is_under_way = False
        self.waiting: deque[tuple[PeerId, bytes]] = deque(maxlen=WAITING_FRAMES_MAX)
        self.done = trio.lowlevel.ParkingLot()


@dataclass(frozen=True, slots=True)
class _Attempt:
    address: Address
    dial: _Dial


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
        self._rng = rng
        self._timing = timing or Timing()
        self._connections: dict[int, _Connection] = {}
        self._device_of: dict[PeerId, PeerId] = {}
        self._dials: dict[Address, _Dial] = {}
        self._serial = 0
        self._nursery: trio.Nursery | None = None
        self._is_ending = False
        self._changed = trio.lowlevel.ParkingLot()

    # --- what the owner calls -------------------------------------------------------------------------

    async def run(
        self, listener: socket.socket, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve `listener` (see `open_listener`) until cancelled; then close it and all connections."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._sweep)
                task_status.started()
                await self._accept(listener)
        finally:
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
        connection = self._best(to.peer)
        if connection is not None:
            self._put(connection, frame)
            return
        address = (to.host, to.port)
        dial = self._dials.setdefault(address, _Dial())
        if not dial.is_under_way and not self._start_dial(address, dial):
            return
        if len(dial.waiting) == WAITING_FRAMES_MAX:
            self.counters["dropped.waiting-full"] += 1
        dial.waiting.append((to.peer, frame))

    async def send_data(self, sender: PeerId, to: Contact, control: bytes, body: Sequence[Buffer]) -> None:
        """Send a body, and wait for room if much is under way. `UnreachableError` if there is no way.

        The buffers are sent as they lie: they must not change any more.
        """
        connection = self._best(to.peer)
        if connection is None:
            await self.greet((to.host, to.port))
            connection = self._best(to.peer)
        if connection is None:
            raise UnreachableError(f"{short(to.peer)} does not live at {to.address}")
        await connection.put_data(data_frame(to.peer, sender, control, body))
        self.counters["data.sent"] += 1

    async def greet(self, address: Address) -> Greeting:
        """Who lives at `address`? Dials it unless it is connected; `UnreachableError` if nobody answers."""
        dial = self._dials.setdefault(address, _Dial())
        if not (found := self._connected_to(address)):
            if not dial.is_under_way and not self._start_dial(address, dial):
                raise UnreachableError(f"{_text(address)} did not answer a moment ago")
            while dial.is_under_way:
                await dial.done.park()
            found = self._connected_to(address)
        if not found:
            raise UnreachableError(f"{_text(address)} does not answer")
        return Greeting(tuple(found.contacts.values()), found.is_member)

    def contacts(self) -> tuple[Contact, ...]:
        """Everybody who is connected now."""
        return tuple(
            contact
            for connection in self._connections.values()
            if connection.device is not None and not connection.said_goodbye
            for contact in connection.contacts.values()
        )

    def tell_membership(self, is_member: bool) -> None:
        """Whether we are in a ring is another matter than when we said HELLO."""
        for connection in self._connections.values():
            connection.put(self._to_stranger(Membership(is_member)))

    def drop_distrusted(self) -> None:
        """End the connections whose certificates have expired or were revoked meanwhile."""
        for serial, reason in self._admission.no_longer_trusted(self._clock.now()):
            self._refused(self._connections[serial].address, False, Refusal(reason, "since it was admitted"))
            self._connections[serial].scope.cancel()

    async def say_goodbye(self) -> None:
        """End every connection in good order, after what is queued was sent. Bounded by `goodbye_s`."""
        self._is_ending = True
        for connection in list(self._connections.values()):
            self._say_goodbye(connection)
        with trio.move_on_after(self._timing.goodbye_s):
            while self._connections:
                await self._changed.park()

    # --- dialling and accepting -----------------------------------------------------------------------

    async def _accept(self, listener: socket.socket) -> None:
        assert self._nursery is not None
        while True:
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                await trio.lowlevel.wait_readable(listener)
            except OSError as error:
                if error.errno not in _ACCEPT_LATER:
                    continue  # that one gave up while it waited in the backlog
                self.counters["accept-failed"] += 1
                await trio.sleep(_ACCEPT_PAUSE_S)
            else:
                self._nursery.start_soon(self._live, sock, (address[0], address[1]), None)

    def _start_dial(self, address: Address, dial: _Dial) -> bool:
        if self._nursery is None or self._is_ending:
            self.counters["dropped.ending"] += 1
            return False
        if not dial.backoff.may_try(self._clock.now()):
            self.counters["dropped.backoff"] += 1
            return False
        if sum(each.is_under_way for each in self._dials.values()) >= DIALS_MAX:
            self.counters["dropped.dials-busy"] += 1
            return False
        dial.is_under_way = True
        self.counters["dialled"] += 1
        self._nursery.start_soon(self._dial, _Attempt(address, dial))
        return True

    async def _dial(self, attempt: _Attempt) -> None:
        """Dial an address; if that leads to a connection, this task is its life."""
        try:
            with trio.fail_after(self._timing.dial_s):
                sock, address = await _connect(attempt.address)
        except (OSError, trio.TooSlowError) as error:
            is_refused = isinstance(error, ConnectionRefusedError)
            reason = "nobody-listens" if is_refused else "no-connection"
            self._dial_failed(attempt, reason, str(error) or "no answer", is_hint=is_refused)
        else:
            await self._live(sock, address, attempt)

    def _dial_failed(self, attempt: _Attempt, reason: str, detail: str, *, is_hint: bool) -> None:
        """`is_hint`: does this failure say something about the peer, rather than about the network?"""
        attempt.dial.backoff.on_failure(self._clock.now(), self._rng)
        self.counters[f"dial-failed.{reason}"] += 1
        self._upcalls.observed(LinkRefused(_text(attempt.address), True, reason, detail))
        lost = sorted({peer for peer, _ in attempt.dial.waiting if self._best(peer) is None})
        self._dial_ended(attempt)
        for peer in lost if is_hint else ():
            self._upcalls.link_lost(peer, "refused")

    def _dial_ended(self, attempt: _Attempt) -> None:
        """Admitted or not: send what waits over whatever connection there is now."""
        dial = attempt.dial
        assert dial.is_under_way
        dial.is_under_way = False
        for peer, frame in dial.waiting:
            connection = self._best(peer)
            if connection is not None:
                self._put(connection, frame)
            else:
                self.counters["dropped.not-connected"] += 1
        dial.waiting.clear()
        dial.done.unpark_all()

    # --- the life of a connection ---------------------------------------------------------------------

    async def _live(self, sock: socket.socket, address: Address, attempt: _Attempt | None) -> None:
        """One socket from open to closed; `attempt` if we dialled it."""
        if self._is_ending and attempt is None:
            sock.close()
            return
        serial = self._serial = self._serial + 1
        refusal = self._admission.on_open(serial, address[0], is_dialled=attempt is not None)
        if refusal is not None:
            sock.close()
            self._refused(address, attempt is not None, refusal)
            if attempt is not None:
                self._dial_failed(attempt, refusal.reason, refusal.detail, is_hint=False)
            return
        stream = self._stream(sock, is_server=attempt is None)
        try:
            connection = _Connection(serial, stream, address, is_dialled=attempt is not None, now=self._clock.now())
            outcome = await self._introduce(connection)
            if isinstance(outcome, Admitted):
                await self._converse(connection, outcome, attempt)
            elif attempt is not None:
                self._dial_failed(attempt, outcome.reason, outcome.detail, is_hint=outcome.is_hint)
        finally:
            self._admission.on_close(serial)
            stream.close()

    def _stream(self, sock: socket.socket, *, is_server: bool) -> Stream:
        if self._tls is None:
            return PlainStream(sock)
        return TlsStream(sock, self._tls.server if is_server else self._tls.client, is_server=is_server)

    async def _introduce(self, connection: _Connection) -> Admitted | _Failure:
        """Handshake and HELLO: who is there, or why not."""
        try:
            with trio.fail_after(self._timing.handshake_s):
                await connection.stream.handshake()
                if connection.is_dialled:
                    return await self._say_hello(connection)
                return await self._answer_hello(connection)
        except trio.TooSlowError:
            failure = _Failure("half-open", "no HELLO within the deadline", is_hint=False)
        except ssl.SSLError as error:
            failure = _Failure(handshake_failure(error), str(error))
        except WireError as error:
            failure = _Failure(error.reason, str(error))
        except StreamBrokenError as error:
            # A far end that closes before it is admitted: its verdict if we dialled, a whim if not.
            failure = _Failure("turned-away" if connection.is_dialled else "half-open", str(error))
        except _TurnedAwayError as turned:
            self.counters[f"turned-away.{turned.reason}"] += 1
            return _Failure(turned.reason, turned.detail)
        except _RefusedError as refused:
            failure = _Failure(refused.refusal.reason, refused.refusal.detail)
            await self._turn_away(connection, refused.refusal)
        self._refused(connection.address, connection.is_dialled, Refusal(failure.reason, failure.detail))
        return failure

    async def _say_hello(self, connection: _Connection) -> Admitted:
        await connection.stream.send_buffers([self._to_stranger(self._admission.hello())])
        message = decode((await connection.next_frame()).content)
        if isinstance(message, TurnedAway):
            raise _TurnedAwayError(message.reason, message.detail)
        if not isinstance(message, Welcome):
            _refuse("no-hello", f"{type(message).__name__} instead of a welcome")
        verdict = self._admission.on_welcome(
            connection.serial,
            message,
            certificate=connection.stream.peer_certificate(),
            now=self._clock.now(),
        )
        if isinstance(verdict, Refusal):
            raise _RefusedError(verdict)
        return verdict

    async def _answer_hello(self, connection: _Connection) -> Admitted:
        message = decode((await connection.next_frame()).content)
        if not isinstance(message, Hello):
            _refuse("no-hello", f"{type(message).__name__} instead of a hello")
        verdict = self._admission.on_hello(
            connection.serial,
            message,
            certificate=connection.stream.peer_certificate(),
            now=self._clock.now(),
        )
        if isinstance(verdict, Refusal):
            raise _RefusedError(verdict)
        # Queued, not sent: so that nothing may happen between this verdict and its consequences.
        connection.put(self._to_stranger(self._admission.welcome()))
        return verdict

    def _to_stranger(self, message: Any) -> bytes:
        return control_frame(PeerId(NOBODY), PeerId(NOBODY), encode(message))

    async def _turn_away(self, connection: _Connection, refusal: Refusal) -> None:
        """Tell the far end why, and give it a moment to read it: an honest one may need to know."""
        frame = self._to_stranger(TurnedAway(refusal.reason, refusal.detail[:200]))
        with trio.move_on_after(_LAST_WORD_S):
            try:
                await connection.stream.send_buffers([frame])
                await connection.stream.receive_exactly_into(memoryview(bytearray(1)))
            except StreamBrokenError:
                pass

    async def _converse(self, connection: _Connection, admitted: Admitted, attempt: _Attempt | None) -> None:
        """Both directions of an admitted connection, until it ends."""
        self._welcome_in(connection, admitted)
        if attempt is not None:
            attempt.dial.backoff.on_success()
            self._report_strangers(connection, attempt.dial)
            self._dial_ended(attempt)
        reason = "closed"
        try:
            with connection.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, connection, nursery.cancel_scope)
                    try:
                        while True:
                            self._take(connection, await connection.next_frame())
                    except StreamBrokenError:
                        if connection.said_goodbye or connection.heard_goodbye:
                            reason = "goodbye"
                    except WireError as error:
                        reason = error.reason
                        self._refused(connection.address, connection.is_dialled, Refusal(reason, str(error)))
                    except _RefusedError as error:
                        reason = error.refusal.reason
                        self._refused(connection.address, connection.is_dialled, error.refusal)
                    nursery.cancel_scope.cancel()
            if connection.heard_goodbye or connection.said_goodbye:
                reason = "goodbye"
        finally:
            self._see_out(connection, reason)

    async def _write(self, connection: _Connection, both: trio.CancelScope) -> None:
        try:
            await connection.write_until_done()
            both.cancel()
        except StreamBrokenError:
            both.cancel()

    def _welcome_in(self, connection: _Connection, admitted: Admitted) -> None:
        connection.device = admitted.device
        connection.contacts = {contact.peer: contact for contact in admitted.contacts}
        connection.is_member = admitted.is_member
        connection.reader.body_bytes_max = BODY_BYTES_MAX
        connection.last_used = self._clock.now()
        self._connections[connection.serial] = connection
        for contact in admitted.contacts:
            self._device_of[contact.peer] = admitted.device
            if (dial := self._dials.get((contact.host, contact.port))) is not None:
                dial.backoff.on_success()
        for serial in admitted.superseded:
            if (old := self._connections.get(serial)) is not None:
                old.scope.cancel()
        self.counters["admitted"] += 1
        self._upcalls.observed(LinkUp(admitted.contacts, connection.is_dialled, admitted.is_member))

    def _report_strangers(self, connection: _Connection, dial: _Dial) -> None:
        """Whoever we looked for at this address and who does not live there any more is lost."""
        strangers = sorted({peer for peer, _ in dial.waiting if peer not in connection.contacts})
        for peer in strangers:
            detail = f"{short(peer)} does not live there any more"
            self._refused(connection.address, True, Refusal("id-mismatch", detail))
            if self._best(peer) is None:
                self._upcalls.link_lost(peer, "refused")

    def _see_out(self, connection: _Connection, reason: str) -> None:
        del self._connections[connection.serial]
        self._admission.on_ending(connection.serial)
        connection.on_closed()
        self._changed.unpark_all()
        assert connection.device is not None
        if any(each.device == connection.device for each in self._connections.values()):
            return
        for peer in connection.contacts:
            self._device_of.pop(peer, None)
        self._upcalls.observed(LinkDown(tuple(connection.contacts.values()), reason))
        if reason != "goodbye" and not self._is_ending:
            for peer in connection.contacts:
                self._upcalls.link_lost(peer, "closed")

    # --- what is said on it ---------------------------------------------------------------------------

    def _take(self, connection: _Connection, frame: Frame) -> None:
        connection.last_used = self._clock.now()
        sender = connection.contacts.get(frame.sender)
        is_control = frame.header.kind is FrameKind.CONTROL
        message: Any = None
        if is_control:
            try:
                message = decode(frame.content)
            except WireError as error:
                if error.reason != "unknown-message":
                    raise
                # A newer peer may know words that we do not; nobody relies on our understanding them.
                self._refused(connection.address, connection.is_dialled, Refusal(error.reason, str(error)))
                return
            if isinstance(message, Goodbye):
                self._admission.on_ending(connection.serial)
                connection.on_goodbye()
                return
            if isinstance(message, Membership):
                connection.is_member = message.is_member
                self._upcalls.observed(LinkMember(tuple(connection.contacts.values()), message.is_member))
                return
            if isinstance(message, Hello | Welcome | TurnedAway):
                _refuse("duplicate", f"{type(message).__name__} in the middle of a conversation")
        if sender is None:
            _refuse("id-mismatch", f"speaks for {short(frame.sender)}, which it did not introduce")
        self.counters["received" if is_control else "data.received"] += 1
        if is_control:
            self._upcalls.received(frame.to, sender, message)
        else:
            frame.check_body()
            self._upcalls.received_data(frame.to, sender, frame)

    def _best(self, peer: PeerId) -> _Connection | None:
        device = self._device_of.get(peer)
        if device is None:
            return None
        serial = self._admission.preferred(device)
        connection = None if serial is None else self._connections.get(serial)
        return connection if connection is not None and peer in connection.contacts else None

    def _connected_to(self, address: Address) -> _Connection | None:
        for connection in self._connections.values():
            if connection.said_goodbye or connection.heard_goodbye:
                continue
            if any((contact.host, contact.port) == address for contact in connection.contacts.values()) or (
                connection.is_dialled and connection.address == address
            ):
                return connection
        return None

    def _put(self, connection: _Connection, frame: bytes) -> None:
        connection.last_used = self._clock.now()
        self.counters["sent"] += 1
        if dropped := connection.put(frame):
            self.counters["dropped.outbox-full"] += dropped

    def _refused(self, address: Address, is_dialled: bool, refusal: Refusal) -> None:
        self.counters[f"refused.{refusal.reason}"] += 1
        self._upcalls.observed(LinkRefused(_text(address), is_dialled, refusal.reason, refusal.detail))

    # --- endings --------------------------------------------------------------------------------------

    def _say_goodbye(self, connection: _Connection) -> None:
        if connection.said_goodbye or self._nursery is None:
            return
        connection.said_goodbye = True
        self._admission.on_ending(connection.serial)
        connection.put(self._to_stranger(Goodbye()))
        self._nursery.start_soon(self._close_later, connection)

    async def _close_later(self, connection: _Connection) -> None:
        with trio.move_on_after(self._timing.goodbye_s):
            while not connection.is_closed:
                await self._changed.park()
        connection.scope.cancel()

    async def _sweep(self) -> None:
        """End what is idle or no longer trusted, forget addresses nobody asks for."""
        trusted_until = 0.0
        while True:
            await trio.sleep(self._timing.idle_s / 4)
            now = self._clock.now()
            if now >= trusted_until:
                self.drop_distrusted()
                trusted_until = now + TRUST_S
            for connection in list(self._connections.values()):
                if now - connection.last_used >= self._timing.idle_s and connection.outbox.is_empty:
                    self._say_goodbye(connection)
            for address, dial in list(self._dials.items()):
                if not dial.is_under_way and now > dial.backoff.not_before + BACKOFF_MAX_S:
                    del self._dials[address]


_ACCEPT_LATER: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_PAUSE_S: Final = 0.1
"""Out of file descriptors: somebody must close one first."""
_LAST_WORD_S: Final = 1.0
"""How long we wait for a refused far end to take our reason."""


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one (`getsockname` tells which)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def is_loopback(host: str) -> bool:
    return subnet_of(host) == LOOPBACK_SUBNET


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _connect(address: Address) -> tuple[socket.socket, Address]:
    """A connected socket and where it leads; `OSError` if there is none. Tries each address of a name."""
    found: Iterable[Any] = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    failure: OSError = OSError(f"{address[0]} has no address")
    for family, kind, protocol, _, target in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            code = sock.connect_ex(target)
            if code == errno.EINPROGRESS:
                await trio.lowlevel.wait_writable(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                return sock, (target[0], target[1])
            failure = OSError(code, errno.errorcode.get(code, "failed"))
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failure
