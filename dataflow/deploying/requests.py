"""What peers ask of each other to launch and end an app: a question, an answer, nothing in between.

    SendJoin   "route a JOIN to this key"           -> Routed       the peers on its way
    Measure    "who is near you, with what room?"   -> Measured     itself first, then its leaf set
    Reserve    "keep room for so many instances"    -> Agreed | Declined
    Host       "get ready to run these" + charter   -> Agreed | Declined
    Begin      "let your sources speak"             -> Agreed | Declined
    Halt       "end it" (also gives room back)      -> Agreed
    Inquire    "how is it going?"                   -> Report       JSON, for a person
    Failed     "it broke here": everybody halts     -> Agreed
    ReadRows   "what has this sink taken?"          -> Rows         the rows are the body, as an Arrow stream
    Explain    "why is it where it is?"             -> Report       the reasons of its charter
    ReadEvents "what has happened to it?"           -> Report       events from a position on
    CloseSources "read no more; what is under way?" -> Report       counts: see hosting/tally.py

Every answer repeats the number of its question. All of them may be asked twice: an answer can be lost, and
the second time finds the work done. They travel as the content of DATA frames, because a charter is larger than a
control message may be and must not be dropped silently.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from overlay.contact import Contact
from overlay.vitals import LOAD_MAX
from overlay.wire import (
    U16,
    U32,
    U64,
    Contacts,
    Flag,
    Name,
    Sentence,
    WireContact,
    WireKey,
    listed,
    message,
    real,
    struct,
    text,
)

APP_ID_CHARS: Final = 64
"""An app's id is the SHA-256 of its bundle, in hexadecimal digits."""
REPORT_BYTES_MAX: Final = 48 * 1024
ROOMS_MAX: Final = 64
"""A peer and its leaf set, with room to spare."""

AppId = Annotated[str, text(APP_ID_CHARS)]


@dataclass(frozen=True, slots=True)
class Room:
    """What one peer has to offer, as it or a neighbour of it knows."""

    contact: WireContact
    slots: U16
    slots_used: U16
    load: Annotated[float, real(0.0, LOAD_MAX)]
    memory_free_mib: U32 = 0

    @property
    def slots_free(self) -> int:
        return max(0, self.slots - self.slots_used)


@message(tag=100)
@dataclass(frozen=True, slots=True)
class SendJoin:
    ask: U64
    app: AppId
    key: WireKey


@message(tag=101)
@dataclass(frozen=True, slots=True)
class Routed:
    """The peers on the way of the JOIN, its origin first, the rendezvous last."""

    ask: U64
    hops: Contacts


@message(tag=102)
@dataclass(frozen=True, slots=True)
class Measure:
    ask: U64


@message(tag=103)
@dataclass(frozen=True, slots=True)
class Measured:
    ask: U64
    rooms: Annotated[tuple[Room, ...], listed(struct(Room), ROOMS_MAX)]


@message(tag=104)
@dataclass(frozen=True, slots=True)
class Reserve:
    ask: U64
    app: AppId
    name: Name
    generation: U64
    slots: U16
    memory_mib: U32 = 0
    """Beside what an instance takes in its slot: for worker processes."""


@message(tag=105)
@dataclass(frozen=True, slots=True)
class Host:
    """The charter is the body of the frame."""

    ask: U64
    app: AppId
    generation: U64


@message(tag=106)
@dataclass(frozen=True, slots=True)
class Begin:
    ask: U64
    app: AppId
    generation: U64


@message(tag=107)
@dataclass(frozen=True, slots=True)
class Halt:
    """`is_drained`: sources end first, and what is under way still reaches the sinks."""

    ask: U64
    app: AppId
    generation: U64
    is_drained: Flag
    reason: Sentence


@message(tag=108)
@dataclass(frozen=True, slots=True)
class Failed:
    """An instance here has failed: `reason` says where and why. The app ends everywhere."""

    ask: U64
    app: AppId
    generation: U64
    reason: Sentence


@message(tag=109)
@dataclass(frozen=True, slots=True)
class Inquire:
    ask: U64
    app: AppId


@message(tag=110)
@dataclass(frozen=True, slots=True)
class Report:
    """Facts about our share of an app, as JSON."""

    ask: U64
    facts: Annotated[str, text(REPORT_BYTES_MAX)]


@message(tag=111)
@dataclass(frozen=True, slots=True)
class Agreed:
    ask: U64


@message(tag=112)
@dataclass(frozen=True, slots=True)
class Declined:
    ask: U64
    reason: Sentence


@message(tag=113)
@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows of a sink from a position on. `from_now`: never mind the position, begin with what comes next.

    Waits up to `wait_ms` for rows. The first question of a reader attaches it: see hosting/kept_rows.py.
    """

    ask: U64
    app: AppId
    stream: Name
    reader: Name
    position: U64
    from_now: Flag
    wait_ms: U16


@message(tag=114)
@dataclass(frozen=True, slots=True)
class Rows:
    ask: U64
    first: U64
    next: U64
    is_ended: Flag


@message(tag=160)
@dataclass(frozen=True, slots=True)
class Explain:
    ask: U64
    app: AppId


@message(tag=161)
@dataclass(frozen=True, slots=True)
class ReadEvents:
    ask: U64
    app: AppId
    position: U64


@message(tag=162)
@dataclass(frozen=True, slots=True)
class CloseSources:
    """The first one closes them; each is told what is under way. A host that hears no more of it ends by itself."""

    ask: U64
    app: AppId
    generation: U64


Request = (
    SendJoin
    | Measure
    | Reserve
    | Host
    | Begin
    | Halt
    | Failed
    | Inquire
    | ReadRows
    | Explain
    | ReadEvents
    | CloseSources
)
Reply = Routed | Measured | Agreed | Declined | Report | Rows
REPLIES: Final = (Routed, Measured, Agreed, Declined, Report, Rows)


def sentence_of(reason: str) -> str:
    """A reason that fits a message, however long a user's exception was.

    >>> len(sentence_of("x" * 5000).encode())
    1024
    """
    return reason.encode()[:1024].decode(errors="ignore")


def room_of(contact: Contact, *, slots: int, slots_used: int, load: float, memory_free_mib: int) -> Room:
    within = min(max(load, 0.0), LOAD_MAX)
    return Room(contact, min(slots, 0xFFFF), min(slots_used, 0xFFFF), within, max(memory_free_mib, 0))
