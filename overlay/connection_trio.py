"""One socket between two devices: what waits to be sent on it, and its two pumps.

One task reads frames and hands each to `take`; another writes whatever the outbox gives. Either one's end
ends both. After our own GOODBYE we go on listening, and after the far end's we go on writing until all is
said, so that an ending loses nothing.

Promises: `put` never waits; `put_data` waits for room; whoever waits when the connection ends is told so.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import trio

from overlay.admission import Admitted, Refusal
from overlay.contact import Contact
from overlay.frames import BODY_BYTES_MAX, NOBODY, Buffer, Frame, FrameReader, control_frame
from overlay.ids import PeerId
from overlay.links import Address, UnreachableError
from overlay.outbox import Outbox
from overlay.streams_trio import Stream, StreamBrokenError
from overlay.wire import WireError, encode


class RefusedError(Exception):
    """We end this connection."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def refuse(reason: str, detail: str) -> NoReturn:
    raise RefusedError(Refusal(reason, detail))


def session_frame(message: Any) -> bytes:
    """A message about the connection itself: from no peer in particular, to none."""
    return control_frame(PeerId(NOBODY), PeerId(NOBODY), encode(message))


class Connection:
    def __init__(self, serial: int, stream: Stream, address: Address, *, is_dialled: bool, now: float) -> None:
        self.serial = serial
        self.stream = stream
        self.address = address
        self.is_dialled = is_dialled
        self.last_used = now
        self.device: PeerId | None = None
        self.contacts: dict[PeerId, Contact] = {}
        self.is_member = False
        self.said_goodbye = False
        self.heard_goodbye = False
        self.is_closed = False
        # A stranger may send no body: nothing is reserved for one before he is admitted.
        self._reader = FrameReader(body_bytes_max=0)
        self._outbox = Outbox()
        self._scope = trio.CancelScope()
        self._something_to_send = trio.lowlevel.ParkingLot()
        self._room_for_data = trio.lowlevel.ParkingLot()

    @property
    def is_ending(self) -> bool:
        return self.said_goodbye or self.heard_goodbye

    @property
    def has_said_all(self) -> bool:
        return self._outbox.is_empty

    def on_admitted(self, admitted: Admitted, now: float) -> None:
        self.device = admitted.device
        self.contacts = {contact.peer: contact for contact in admitted.contacts}
        self.is_member = admitted.is_member
        self.last_used = now
        self._reader.body_bytes_max = BODY_BYTES_MAX

    def on_goodbye(self) -> None:
        """The far end will say no more."""
        self.heard_goodbye = True
        self._something_to_send.unpark_all()

    def on_closed(self) -> None:
        self.is_closed = True
        self._room_for_data.unpark_all()

    def end_at_once(self) -> None:
        self._scope.cancel()

    def put(self, frame: bytes) -> int:
        """Queue a control frame. Returns how many older ones had to go for it."""
        dropped = self._outbox.put_control(frame)
        self._something_to_send.unpark_all()
        return dropped

    async def put_data(self, portions: Iterator[list[Buffer]]) -> None:
        """Queue a data frame, as soon as there is room."""
        while not self.is_closed and not self._outbox.has_room_for_data:
            await self._room_for_data.park()
        if self.is_closed:
            raise UnreachableError("the connection broke before the data was sent")
        self._outbox.put_data(portions)
        self._something_to_send.unpark_all()

    async def next_frame(self) -> Frame:
        while True:
            space = self._reader.space()
            await self.stream.receive_exactly_into(space)
            frames = self._reader.advance(len(space))
            if frames:
                return frames[0]

    async def converse(self, take: Callable[[Frame], None]) -> Refusal | None:
        """Both directions until either ends. Returns what the far end did wrong, if that was the end of it."""
        refusal: Refusal | None = None
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                try:
                    while True:
                        take(await self.next_frame())
                except StreamBrokenError:
                    pass
                except WireError as error:
                    refusal = Refusal(error.reason, str(error))
                except RefusedError as error:
                    refusal = error.refusal
                nursery.cancel_scope.cancel()
        return refusal

    async def _write(self, both: trio.CancelScope) -> None:
        """Send what comes, until the far end has said GOODBYE and we have said all; then end `both`."""
        try:
            while True:
                buffers = self._outbox.next_buffers()
                if buffers:
                    await self.stream.send_buffers(buffers)
                    if self._outbox.has_room_for_data:
                        self._room_for_data.unpark_all()
                elif self.heard_goodbye:
                    break
                else:
                    await self._something_to_send.park()
        except StreamBrokenError:
            pass
        both.cancel()
