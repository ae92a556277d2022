"""What waits to be sent on one connection: control first, data in between, both bounded.

A node must never wait for a slow neighbour, so control messages are taken without asking, and when there are
too many the *oldest* is dropped: our messages may be lost anyway (`effects.Send`), and a ping that has waited
behind hundreds is stale, whereas the newest says what is true now. Data must not be lost and has credits of
its own: whoever sends data waits until `has_room_for_data`.

Control slips in between the portions of a body, so a large body delays it by one portion at most.

Pure: the shell takes `next_buffers` whenever the socket takes more.
Rejected: dropping by message type (the transport would need to know the protocol); blocking the sender (one
stopped neighbour would stop the node).
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from overlay.frames import Buffer

CONTROL_FRAMES_MAX: Final = 512
"""Ten times what a busy neighbour is sent in a second."""
CONTROL_QUEUE_BYTES_MAX: Final = 1024 * 1024
"""Room for sixteen of the largest messages: 512 of those would be 32 MiB for one stopped neighbour."""
DATA_FRAMES_MAX: Final = 2
"""One on the wire, one ready when it is through."""
BATCH_BYTES: Final = 64 * 1024
"""Control frames that are sent at once: one system call for all that queued up meanwhile."""


class Outbox:
    """
    >>> outbox = Outbox(control_frames_max=2)
    >>> [outbox.put_control(each) for each in (b"old", b"new", b"newest")]
    [0, 0, 1]
    >>> outbox.put_data(iter([[b"start"], [b"piece"]]))
    >>> outbox.next_buffers(), outbox.next_buffers()
    ([b'new', b'newest'], [b'start'])
    >>> outbox.put_control(b"ping"); outbox.next_buffers(), outbox.next_buffers(), outbox.next_buffers()
    0
    ([b'ping'], [b'piece'], [])
    """

    def __init__(self, *, control_frames_max: int = CONTROL_FRAMES_MAX) -> None:
        self._control: deque[bytes] = deque()
        self._control_bytes = 0
        self._control_frames_max = control_frames_max
        self._data: deque[Iterator[list[Buffer]]] = deque()

    def put_control(self, frame: bytes) -> int:
        """Queue one CONTROL frame; returns how many older ones had to go for it."""
        self._control.append(frame)
        self._control_bytes += len(frame)
        dropped = 0
        while len(self._control) > self._control_frames_max or self._control_bytes > CONTROL_QUEUE_BYTES_MAX:
            self._control_bytes -= len(self._control.popleft())
            dropped += 1
        return dropped

    @property
    def has_room_for_data(self) -> bool:
        return len(self._data) < DATA_FRAMES_MAX

    def put_data(self, portions: Iterator[list[Buffer]]) -> None:
        assert self.has_room_for_data, "wait for has_room_for_data"
        self._data.append(portions)

    def next_buffers(self) -> list[Buffer]:
        """What to send next; empty when there is nothing."""
        batch: list[Buffer] = []
        batch_bytes = 0
        while self._control and (not batch or batch_bytes + len(self._control[0]) <= BATCH_BYTES):
            frame = self._control.popleft()
            batch.append(frame)
            batch_bytes += len(frame)
        if batch:
            self._control_bytes -= batch_bytes
            return batch
        while self._data:
            portion = next(self._data[0], None)
            if portion is not None:
                return portion
            self._data.popleft()
        return []

    @property
    def is_empty(self) -> bool:
        return not self._control and not self._data
