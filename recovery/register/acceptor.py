"""One member of one register: what it has stored and a question in, an answer and what to store out.

The record must be stored for good before the answer leaves. Nothing is remembered beside it: each question is answered
from what the disk has, so a crash, a failed write or a lost file can never make memory and disk disagree.

A record that is gone or damaged counts as never made. Its peer abstains until a config names the token of a new one.
A member that has voted in a config never votes in an earlier one again; it tells where it is now.

Pure. Rejected: promises in a file of their own (a crash between two files needs a story, and values are small).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated, Final

from overlay.ids import PeerId
from overlay.wire import U64, WireError, decode, encode, message, optional, struct
from recovery.register.ballot import START, WireBallot
from recovery.register.config import Config
from recovery.register.messages import (
    DAMAGED,
    NO_RECORD,
    NOT_ADMITTED,
    OTHER_CONFIG,
    OTHER_RECORD,
    Abstained,
    Accept,
    Accepted,
    AppId,
    Enlist,
    Enlisted,
    Moved,
    Outvoted,
    Prepare,
    Promised,
    Reply,
    Request,
    WireHeader,
)
from recovery.register.value import EMPTY, value_of

_SUM_BYTES: Final = 16
_LENGTH_BYTES: Final = 4


@message(tag=129)
@dataclass(frozen=True, slots=True)
class Votes:
    """What a member has bound itself to; on disk beside the content. `config`: None until it is admitted to one."""

    app: AppId
    token: U64
    config: Annotated[Config | None, optional(struct(Config))]
    promised: WireBallot
    accepted: WireBallot
    header: WireHeader


@dataclass(frozen=True, slots=True)
class Turn:
    """Store `record`, if there is one; then, and only then, send the answer."""

    reply: Reply
    body: bytes = b""
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class Acceptor:
    me: PeerId
    votes: Votes | None
    content: bytes

    @classmethod
    def load(cls, app: str, me: PeerId, record: bytes | None) -> Acceptor:
        """From what the disk has; a record that is damaged, or of another app, is none."""
        votes, content = _parse(record) if record is not None else (None, b"")
        return cls(me, votes, content) if votes is not None and votes.app == app else cls(me, None, b"")

    def on(self, request: Request, body: bytes | bytearray | memoryview, draw: int) -> Turn:
        """`draw`: 64 fresh random bits. They must not repeat after a crash: they may become our token."""
        if isinstance(request, Enlist):
            return self.on_enlist(request, draw)
        return self.on_prepare(request) if isinstance(request, Prepare) else self.on_accept(request, body)

    def on_enlist(self, request: Enlist, draw: int) -> Turn:
        if self.votes is not None:
            return Turn(Enlisted(request.ask, self.votes.token))
        votes = Votes(request.app, draw, None, START, START, EMPTY.header)
        return Turn(Enlisted(request.ask, draw), record=_bytes_of(votes, EMPTY.body))

    def on_prepare(self, request: Prepare) -> Turn:
        votes = self.votes
        if votes is None:
            return Turn(Abstained(request.ask, NO_RECORD))
        if (objection := self._objection(votes, request)) is not None:
            return Turn(objection)
        if votes.config is None or votes.config.number < request.config.number:
            return Turn(Abstained(request.ask, NOT_ADMITTED))
        if request.ballot <= votes.promised:  # an equal one may be another proposal's: see ballot.py
            return Turn(Outvoted(request.ask, votes.promised))
        record = _bytes_of(replace(votes, promised=request.ballot), self.content)
        return Turn(Promised(request.ask, votes.accepted, votes.header), self.content, record)

    def on_accept(self, request: Accept, body: bytes | bytearray | memoryview) -> Turn:
        votes = self.votes
        if votes is None:
            return Turn(Abstained(request.ask, NO_RECORD))
        if (objection := self._objection(votes, request)) is not None:
            return Turn(objection)
        value = value_of(request.header, body)
        if value is None:
            return Turn(Abstained(request.ask, DAMAGED))
        if votes.config == request.config:
            if (request.ballot, request.header) == (votes.accepted, votes.header):
                return Turn(Accepted(request.ask))  # a repeated question: it was accepted, and that cannot change
            if request.ballot < votes.promised or request.ballot == votes.accepted:
                return Turn(Outvoted(request.ask, votes.promised))
        promised = max(request.ballot, request.promise)
        kept = Votes(votes.app, votes.token, request.config, promised, request.ballot, value.header)
        return Turn(Accepted(request.ask), record=_bytes_of(kept, value.body))

    def _objection(self, votes: Votes, request: Prepare | Accept) -> Reply | None:
        """Why we do not vote in this config, if we do not."""
        mine, theirs = votes.config, request.config
        if mine is not None and mine.number > theirs.number:
            return Moved(request.ask, mine)
        if theirs.token_of(self.me) != votes.token:
            return Abstained(request.ask, OTHER_RECORD)
        if mine is not None and mine.number == theirs.number and mine != theirs:
            return Abstained(request.ask, OTHER_CONFIG)
        return None


def _bytes_of(votes: Votes, content: bytes) -> bytes:
    head = encode(votes)
    whole = len(head).to_bytes(_LENGTH_BYTES, "big") + head + content
    return _sum_of(whole) + whole


def _parse(record: bytes) -> tuple[Votes | None, bytes]:
    total, whole = record[:_SUM_BYTES], memoryview(record)[_SUM_BYTES:]
    if _sum_of(whole) != total:
        return None, b""
    end = _LENGTH_BYTES + int.from_bytes(whole[:_LENGTH_BYTES], "big")
    try:
        votes = decode(whole[_LENGTH_BYTES:end])
    except WireError:
        return None, b""
    return (votes, bytes(whole[end:])) if isinstance(votes, Votes) else (None, b"")


def _sum_of(whole: bytes | memoryview) -> bytes:
    return blake2b(whole, digest_size=_SUM_BYTES, person=b"shoal-votes").digest()

