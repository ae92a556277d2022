"""What a proposer asks of a member, and what it answers.

    Enlist     "make a record of this app"      -> Enlisted    its token; the one it has, if it has one
    Prepare    "promise me this ballot"         -> Promised    what it has accepted; the content is the body
    Accept     "keep this, and promise the next"-> Accepted    the content is the body of the question
                                                   Outvoted    it has promised a higher ballot
                                                   Moved       it votes in a later config: go there
                                                   Abstained   its vote does not count, and why

Every answer repeats the number of its question. Questions may come twice, late, or never. There is no message to admit
a member: an Accept in a config that names its token does it, because whoever may send one has seen that the config
before is sealed. What a config starts with is sent as an Accept in the ballot START.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from overlay.wire import U64, Kind, message, one_of, struct, text
from recovery.register.ballot import WireBallot
from recovery.register.config import WireConfig
from recovery.register.value import Header

AppId = Annotated[str, text(64)]
WireHeader = Annotated[Header, struct(Header)]

NO_RECORD: Final = "no-record"
"""It has none, or a damaged one: never enlisted here, or it has forgotten everything."""
OTHER_RECORD: Final = "other-record"
"""The config knows it by another token, or not at all: it has forgotten, and was enlisted again."""
OTHER_CONFIG: Final = "other-config"
"""It votes in another config of the same number: this app has been founded twice."""
NOT_ADMITTED: Final = "not-admitted"
"""It is named, but was not told yet: the next Accept admits it."""
DAMAGED: Final = "damaged"
"""The body is not what the header says."""

_WHY: Kind[str] = one_of(NO_RECORD, OTHER_RECORD, OTHER_CONFIG, NOT_ADMITTED, DAMAGED)


@message(tag=120)
@dataclass(frozen=True, slots=True)
class Enlist:
    ask: U64
    app: AppId


@message(tag=121)
@dataclass(frozen=True, slots=True)
class Enlisted:
    ask: U64
    token: U64


@message(tag=122)
@dataclass(frozen=True, slots=True)
class Prepare:
    ask: U64
    app: AppId
    config: WireConfig
    ballot: WireBallot


@message(tag=123)
@dataclass(frozen=True, slots=True)
class Promised:
    ask: U64
    accepted: WireBallot
    header: WireHeader


@message(tag=124)
@dataclass(frozen=True, slots=True)
class Accept:
    """`promise` is the ballot of the asker's next change, or `ballot` itself."""

    ask: U64
    app: AppId
    config: WireConfig
    ballot: WireBallot
    promise: WireBallot
    header: WireHeader


@message(tag=125)
@dataclass(frozen=True, slots=True)
class Accepted:
    ask: U64


@message(tag=126)
@dataclass(frozen=True, slots=True)
class Outvoted:
    ask: U64
    promised: WireBallot


@message(tag=127)
@dataclass(frozen=True, slots=True)
class Moved:
    ask: U64
    config: WireConfig


@message(tag=128)
@dataclass(frozen=True, slots=True)
class Abstained:
    ask: U64
    why: Annotated[str, _WHY]


Request = Enlist | Prepare | Accept
Reply = Enlisted | Promised | Accepted | Outvoted | Moved | Abstained
REPLIES: Final = (Enlisted, Promised, Accepted, Outvoted, Moved, Abstained)
