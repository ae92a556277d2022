"""The registers that this peer is a member of, on its disk: one file per app, stored first, answered then.

Nothing is kept in memory: whatever happens to a file or to a write, the next question is answered from what is there.

Calls block, and one app's questions must be answered one after the other: two at once could both be promised the
same. A `DiskError` means no answer; the asker counts us as silent.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random

from overlay.ids import PeerId
from recovery.disk import Disk
from recovery.register.acceptor import Acceptor
from recovery.register.messages import Reply, Request

PREFIX = "register-"


class Registers:
    """`rng` must not repeat itself after a restart: `random.SystemRandom()`, or a stream named after the boot."""

    def __init__(self, disk: Disk, me: PeerId, rng: Random) -> None:
        self._disk = disk
        self._me = me
        self._rng = rng

    def answer(self, request: Request, body: bytes | bytearray | memoryview = b"") -> tuple[Reply, bytes]:
        """The answer, and the content that travels with it."""
        name = name_of(request.app)
        acceptor = Acceptor.load(request.app, self._me, self._disk.get(name))
        turn = acceptor.on(request, body, self._rng.getrandbits(64))
        if turn.record is not None:
            self._disk.put(name, turn.record)
        return turn.reply, turn.body

    def forget(self, app: str) -> None:
        """The app has ended. Members of its earlier configs forget too, or a later launch of it follows their word."""
        self._disk.delete(name_of(app))


def name_of(app: str) -> str:
    """An app may be called anything; a file may not."""
    return PREFIX + blake2b(app.encode(), digest_size=16, person=b"shoal-file").hexdigest()
