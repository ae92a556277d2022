"""Dial addresses: one attempt at a time for each, with back-off, keeping a few messages meanwhile.

A message to somebody who is not connected starts a dial and waits for its end. While an address is in its
back-off, messages to it are dropped at once: one that is seconds old says what is no longer true.

    attempt -> socket -> `live` (introduction, conversation)
                           |-- admitted: what waits is sent
       '-- failed: back-off, and a hint that the peers we looked for there may be dead

Bounds: `DIALS_MAX` attempts at once, `WAITING_FRAMES_MAX` messages for each, and an address that nobody asked
for during the longest back-off is forgotten.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from socket import socket
from typing import Final

import trio

from overlay.admission import Refusal
from overlay.backoff import BACKOFF_MAX_S, Backoff
from overlay.book_trio import Book
from overlay.clock_trio import Clock
from overlay.connection_trio import Connection
from overlay.ids import PeerId, short
from overlay.links import Address, Reports
from overlay.sockets_trio import connect

WAITING_FRAMES_MAX: Final = 64
"""Messages kept for one address while it is dialled: more than a node says to a peer within a handshake."""
DIALS_MAX: Final = 64
"""Dials under way at once. A joining peer meets some fifty others; more would only choke a small CPU."""


class Dial:
    """What we know of one address: our patience with it, and what waits for it."""

    def __init__(self) -> None:
        self.backoff = Backoff()
        self.is_under_way = False
        self.waiting: deque[tuple[PeerId, bytes]] = deque(maxlen=WAITING_FRAMES_MAX)
        self.done = trio.lowlevel.ParkingLot()


@dataclass(frozen=True, slots=True)
class Attempt:
    address: Address
    dial: Dial


Live = Callable[[socket, Address, Attempt], Awaitable[None]]
"""What becomes of a connected socket. It calls `admitted` or `failed` for its attempt, once."""


class Dialler:
    def __init__(self, book: Book, *, clock: Clock, rng: Random, reports: Reports, dial_s: float) -> None:
        self._book = book
        self._clock = clock
        self._rng = rng
        self._reports = reports
        self._dial_s = dial_s
        self._dials: dict[Address, Dial] = {}
        self._nursery: trio.Nursery | None = None
        self._live: Live | None = None

    def open(self, nursery: trio.Nursery, live: Live) -> None:
        """From now on dial, in tasks of `nursery`."""
        self._nursery, self._live = nursery, live

    def close(self) -> None:
        """Dial nobody any more; attempts under way go on."""
        self._nursery = None

    def send(self, address: Address, peer: PeerId, frame: bytes) -> None:
        """Dial `address`, and send `frame` to `peer` when that succeeded."""
        dial = self._dials.setdefault(address, Dial())
        if not dial.is_under_way and not self._start(address, dial):
            return
        if len(dial.waiting) == WAITING_FRAMES_MAX:
            self._reports.counters["dropped.waiting-full"] += 1
        dial.waiting.append((peer, frame))

    async def try_once(self, address: Address) -> bool:
        """Dial `address`, and wait for what comes of it. False if it may not be dialled now."""
        dial = self._dials.setdefault(address, Dial())
        if not dial.is_under_way and not self._start(address, dial):
            return False
        while dial.is_under_way:
            await dial.done.park()
        return True

    def admitted(self, attempt: Attempt, connection: Connection) -> None:
        """An attempt led to a connection, which is in the book by now."""
        attempt.dial.backoff.on_success()
        self._report_strangers(connection, attempt.dial)
        self._ended(attempt)

    def failed(self, attempt: Attempt, reason: str, detail: str, *, is_hint: bool) -> None:
        """`is_hint`: does this failure say something about the peer, rather than about the network?"""
        attempt.dial.backoff.on_failure(self._clock.now(), self._rng)
        self._reports.counters[f"dial-failed.{reason}"] += 1
        self._reports.observed_refusal(attempt.address, reason, detail, is_dialled=True)
        lost = sorted({peer for peer, _ in attempt.dial.waiting if self._book.best(peer) is None})
        self._ended(attempt)
        for peer in lost if is_hint else ():
            self._reports.upcalls.link_lost(peer, "refused")

    def found_alive(self, connection: Connection) -> None:
        """Whoever is connected can be dialled again at once, wherever he says he lives."""
        for contact in connection.contacts.values():
            if (dial := self._dials.get((contact.host, contact.port))) is not None:
                dial.backoff.on_success()

    def forget_old(self, now: float) -> None:
        for address, dial in list(self._dials.items()):
            if not dial.is_under_way and now > dial.backoff.not_before + BACKOFF_MAX_S:
                del self._dials[address]

    def _start(self, address: Address, dial: Dial) -> bool:
        if self._nursery is None:
            self._reports.counters["dropped.ending"] += 1
            return False
        if not dial.backoff.may_try(self._clock.now()):
            self._reports.counters["dropped.backoff"] += 1
            return False
        if sum(each.is_under_way for each in self._dials.values()) >= DIALS_MAX:
            self._reports.counters["dropped.dials-busy"] += 1
            return False
        dial.is_under_way = True
        self._reports.counters["dialled"] += 1
        self._nursery.start_soon(self._dial, Attempt(address, dial))
        return True

    async def _dial(self, attempt: Attempt) -> None:
        """Dial an address; if that leads to a connection, this task is its life."""
        assert self._live is not None
        try:
            with trio.fail_after(self._dial_s):
                sock, address = await connect(attempt.address)
        except (OSError, trio.TooSlowError) as error:
            is_refused = isinstance(error, ConnectionRefusedError)
            reason = "nobody-listens" if is_refused else "no-connection"
            self.failed(attempt, reason, str(error) or "no answer", is_hint=is_refused)
        else:
            await self._live(sock, address, attempt)

    def _report_strangers(self, connection: Connection, dial: Dial) -> None:
        """Whoever we looked for at this address and who does not live there any more is lost."""
        for peer in sorted({peer for peer, _ in dial.waiting if peer not in connection.contacts}):
            refusal = Refusal("id-mismatch", f"{short(peer)} does not live there any more")
            self._reports.refused(connection.address, refusal, is_dialled=True)
            if self._book.best(peer) is None:
                self._reports.upcalls.link_lost(peer, "refused")

    def _ended(self, attempt: Attempt) -> None:
        """Admitted or not: send what waits over whatever connection there is now."""
        dial = attempt.dial
        assert dial.is_under_way
        dial.is_under_way = False
        for peer, frame in dial.waiting:
            connection = self._book.best(peer)
            if connection is not None:
                self._book.put(connection, frame)
            else:
                self._reports.counters["dropped.not-connected"] += 1
        dial.waiting.clear()
        dial.done.unpark_all()
