"""Ask a holder, and ask again if need be.

A question is out until its reply comes or until the last of `ask_attempts` has had no reply; then its asker hears
of it. A reply that nobody waits for any more is ignored, one from somebody else than was asked is refused.

Pure: who asks gets effects back, and gives some when it is told what came of it.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from overlay.contact import Contact
from overlay.directory_settings import DirectorySettings
from overlay.effects import Effects, Later, Refused, Send
from overlay.messages.storing import Fetch, FetchReply, Store, StoreReply


@dataclass(frozen=True, slots=True)
class AskTimeout:
    nonce: int
    attempt: int


class Asker(Protocol):
    """Who asks. Of each question it hears once: the reply, or that there was none."""

    def is_moot(self, ask: "Ask") -> bool:
        """Does nobody need the reply any more? Then neither is told."""

    def on_reply(self, ask: "Ask", reply: Any, now: float) -> Effects: ...

    def on_silence(self, ask: "Ask", now: float) -> Effects: ...


@dataclass(slots=True)
class Ask:
    """One question that is out. The same one is sent again if no reply comes."""

    to: Contact
    message: Store | Fetch
    asker: Asker
    job: Any
    """What the asker asks it for."""
    is_page: bool = False
    attempt: int = 1


class Asks:
    __slots__ = ("_out", "_settings")

    def __init__(self, settings: DirectorySettings) -> None:
        self._settings = settings
        self._out: dict[int, Ask] = {}

    def __len__(self) -> int:
        return len(self._out)

    def ask(self, ask: Ask, now: float) -> Effects:
        self._out[ask.message.nonce] = ask
        return self._send(ask, now)

    def _send(self, ask: Ask, now: float) -> Effects:
        timeout = AskTimeout(ask.message.nonce, ask.attempt)
        return [Send(ask.to, ask.message), Later(now + self._settings.ask_timeout_s, timeout)]

    def is_out_for(self, job: object) -> bool:
        return any(ask.job is job for ask in self._out.values())

    def on_reply(self, sender: Contact, reply: StoreReply | FetchReply, now: float) -> Effects:
        ask = self._out.get(reply.nonce)
        if ask is None:
            return []  # late, or a duplicate
        if ask.to.peer != sender.peer or isinstance(reply, StoreReply) != isinstance(ask.message, Store):
            return [Refused(sender.peer, "not-asked")]
        del self._out[reply.nonce]
        return [] if ask.asker.is_moot(ask) else ask.asker.on_reply(ask, reply, now)

    def on_timeout(self, event: AskTimeout, now: float) -> Effects:
        ask = self._out.get(event.nonce)
        if ask is None or ask.attempt != event.attempt:
            return []
        is_moot = ask.asker.is_moot(ask)
        if not is_moot and ask.attempt < self._settings.ask_attempts:
            ask.attempt += 1
            return self._send(ask, now)
        del self._out[event.nonce]
        return [] if is_moot else ask.asker.on_silence(ask, now)
