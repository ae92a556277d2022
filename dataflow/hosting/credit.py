"""How much may be under way on one edge: counted in messages and in bytes, from writer to operator and not to socket.

The reader says how far it has *worked*, and how wide its window is; both only ever grow or repeat, so a CREDIT
may be lost, doubled or late without harm. The last message of a window is for tokens: an epoch must be able to end
although rows are stuck in front of it in the reader's inbox.

    rows, watermarks, ends   if fewer than window - 1 messages are under way
    tokens                   if fewer than window are
    bytes                    if they fit, or if less than half of the window is under way

The last rule lets a single row larger than the window through; a reader therefore holds at most `Window.bytes_most`.
It tells what it has worked on whenever that is half of a window, so a writer never waits for nothing: with less than
that untold, it has room.

Pure. Rejected: grants of "n more" (a lost one stops the edge, a doubled one breaks the bound); one window for a pair of
peers (one stuck sink would stop all other apps between them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from overlay.frames import BODY_BYTES_MAX

WINDOW_MESSAGES_MAX: Final = 1024
WINDOW_BYTES_MAX: Final = 64 << 20
"""No reader makes a writer keep more than this, whatever window it claims."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a reader takes in at most before it works. Memory per edge: about `bytes` on each side."""

    messages: int = 16  # a few being sent, a few waiting to be put together, one for a token
    bytes: int = 4 << 20  # two batches of 64k rows with four columns: one worked on, one on its way

    @property
    def kib(self) -> int:
        return self.bytes >> 10

    @property
    def bytes_most(self) -> int:
        """What an honest writer can have under way at most: see the rule for bytes."""
        return max(self.bytes, self.bytes // 2 + BODY_BYTES_MAX)

    def __post_init__(self) -> None:
        assert self.messages >= 4 and self.bytes >= 1 << 10 and self.bytes % 1024 == 0, self


class Allowance:
    """The writer's side: what was sent against what the reader has worked on. Nothing goes before a first CREDIT."""

    def __init__(self) -> None:
        self._window_messages = 0
        self._window_bytes = 0
        self._sent_messages = 0
        self._sent_bytes = 0
        self._worked_messages = 0
        self._worked_bytes = 0

    @property
    def under_way_messages(self) -> int:
        return self._sent_messages - self._worked_messages

    @property
    def under_way_bytes(self) -> int:
        return self._sent_bytes - self._worked_bytes

    @property
    def credit_messages(self) -> int:
        return max(0, self._window_messages - self.under_way_messages)

    @property
    def credit_bytes(self) -> int:
        return max(0, self._window_bytes - self.under_way_bytes)

    @property
    def sent_messages(self) -> int:
        return self._sent_messages

    def may_send(self, size_bytes: int, *, is_token: bool = False) -> bool:
        if self.under_way_messages >= self._window_messages - (0 if is_token else 1):
            return False
        under_way = self.under_way_bytes
        return under_way + size_bytes <= self._window_bytes or under_way < self._window_bytes // 2

    def on_sent(self, size_bytes: int) -> None:
        self._sent_messages += 1
        self._sent_bytes += size_bytes

    def on_credit(self, *, messages: int, size_bytes: int, window_messages: int, window_bytes: int) -> bool:
        """The reader has worked so far. False if it claims what was never sent."""
        if messages > self._sent_messages or size_bytes > self._sent_bytes:
            return False
        if messages >= self._worked_messages and size_bytes >= self._worked_bytes:
            self._worked_messages, self._worked_bytes = messages, size_bytes
            self._window_messages = min(window_messages, WINDOW_MESSAGES_MAX)
            self._window_bytes = min(window_bytes, WINDOW_BYTES_MAX)
        return True


class Meter:
    """The reader's side: what it has taken in, worked on, and told."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.taken_bytes = 0
        self.worked_messages = 0
        self.worked_bytes = 0
        self._told_messages = 0
        self._told_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        return self.taken_bytes - self.worked_bytes

    def within(self, seq: int, more_bytes: int) -> bool:
        """Could an honest writer have sent this seq, with so many bytes more than those that wait?"""
        inside = seq <= self.worked_messages + self.window.messages
        return inside and self.waiting_bytes + more_bytes <= self.window.bytes_most

    def on_taken(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes

    def on_worked(self, size_bytes: int) -> None:
        self.worked_messages += 1
        self.worked_bytes += size_bytes

    def is_due(self) -> bool:
        """Is so much untold that a writer might wait for it?"""
        untold_messages = self.worked_messages - self._told_messages
        untold_bytes = self.worked_bytes - self._told_bytes
        return 2 * untold_messages >= self.window.messages - 2 or 2 * untold_bytes >= self.window.bytes

    def on_told(self) -> None:
        self._told_messages, self._told_bytes = self.worked_messages, self.worked_bytes
