"""Who is connected, and by which connection to speak to him.

Between two devices there may be several connections for a while: two that crossed each other, or those of an
old life and of a new one. `best` names the one to send on, by the rule of `admission.py`, and the link is
down only when the last of them has ended.
"""

from collections.abc import Iterator

import trio

from overlay.admission import Admission, Admitted
from overlay.clock_trio import Clock
from overlay.connection_trio import Connection
from overlay.contact import Contact
from overlay.ids import PeerId
from overlay.links import Address, LinkDown, LinkUp, Reports


class Book:
    """The admitted connections of one process."""

    def __init__(self, admission: Admission, *, clock: Clock, reports: Reports) -> None:
        self._admission = admission
        self._clock = clock
        self._reports = reports
        self._connections: dict[int, Connection] = {}
        self._device_of: dict[PeerId, PeerId] = {}
        self._changed = trio.lowlevel.ParkingLot()

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._connections.values()))

    def __getitem__(self, serial: int) -> Connection:
        return self._connections[serial]

    def best(self, peer: PeerId) -> Connection | None:
        """The connection to send to `peer` on, if there is any."""
        device = self._device_of.get(peer)
        if device is None:
            return None
        serial = self._admission.preferred(device)
        connection = None if serial is None else self._connections.get(serial)
        return connection if connection is not None and peer in connection.contacts else None

    def at(self, address: Address) -> Connection | None:
        """A connection to whoever lives at `address`, or whom we dialled there."""
        for connection in self._connections.values():
            if connection.is_ending:
                continue
            if any((contact.host, contact.port) == address for contact in connection.contacts.values()) or (
                connection.is_dialled and connection.address == address
            ):
                return connection
        return None

    def contacts(self) -> tuple[Contact, ...]:
        """Everybody who is connected now."""
        return tuple(
            contact
            for connection in self._connections.values()
            if not connection.said_goodbye
            for contact in connection.contacts.values()
        )

    def put(self, connection: Connection, frame: bytes) -> None:
        """Send a control frame on `connection`, or drop an older one that nobody took."""
        connection.last_used = self._clock.now()
        self._reports.counters["sent"] += 1
        if dropped := connection.put(frame):
            self._reports.counters["dropped.outbox-full"] += dropped

    def welcome_in(self, connection: Connection, admitted: Admitted) -> None:
        connection.on_admitted(admitted, self._clock.now())
        self._connections[connection.serial] = connection
        for contact in admitted.contacts:
            self._device_of[contact.peer] = admitted.device
        for serial in admitted.superseded:
            if (old := self._connections.get(serial)) is not None:
                old.end_at_once()
        self._reports.counters["admitted"] += 1
        up = LinkUp(admitted.contacts, connection.is_dialled, admitted.is_member)
        self._reports.upcalls.observed(up)

    def see_out(self, connection: Connection, reason: str, *, is_crash: bool) -> None:
        """`is_crash`: nobody took leave, so those at the far end may be dead."""
        del self._connections[connection.serial]
        self._admission.on_ending(connection.serial)
        connection.on_closed()
        self._changed.unpark_all()
        assert connection.device is not None
        if any(each.device == connection.device for each in self._connections.values()):
            return
        for peer in connection.contacts:
            self._device_of.pop(peer, None)
        self._reports.upcalls.observed(LinkDown(tuple(connection.contacts.values()), reason))
        for peer in connection.contacts if is_crash else ():
            self._reports.upcalls.link_lost(peer, "closed")

    async def until_closed(self, connection: Connection) -> None:
        while not connection.is_closed:
            await self._changed.park()

    async def until_empty(self) -> None:
        while self._connections:
            await self._changed.park()
