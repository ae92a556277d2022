"""A question to one peer, with the bytes that go along: machines return it, the shell tells what became of it."""

from dataclasses import dataclass

from overlay.frames import Buffer
from overlay.ids import PeerId
from recovery.custody.messages import Request


@dataclass(frozen=True, slots=True)
class Ask:
    """Put this question, then tell `answered` or `unanswered`."""

    to: PeerId
    request: Request
    body: Buffer = b""
