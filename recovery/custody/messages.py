"""What peers ask of each other about fragments: a question, an answer, nothing in between.

    PutFragment    "keep this" + the fragment      -> Kept       it is on disk: a receipt | Refused
    GetFragment    "what you keep, please"         -> Fragment   + the fragment | NoFragment
    DropFragments  "these may go"                  -> Dropped
    ListFragments  "what do you keep of this app?" -> Fragments

Every answer repeats the number of its question. All of them may be asked twice, and late: a second put of the same
fragment is receipted again, one of another fragment under the same name is refused, and a drop names what must stay.
Fragments travel as the body of the frame.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from overlay.wire import U32, U64, Flag, Sentence, listed, message, struct, text
from recovery.manifest import PARTS_MAX
from recovery.naming import App, Digest, FragmentId

PAGE_MAX: Final = 128
"""Fragments in one answer to `ListFragments`: with the longest names they fill half a control message."""
LATEST: Final = 2**64 - 1

FragmentName = Annotated[FragmentId, struct(FragmentId)]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A part of an instance, by what is left of its name."""

    generation: U64
    epoch: U64
    number: U32


@dataclass(frozen=True, slots=True)
class Held:
    fragment: FragmentName
    size: U64
    digest: Digest


@message(tag=130)
@dataclass(frozen=True, slots=True)
class PutFragment:
    ask: U64
    fragment: FragmentName
    digest: Digest


@message(tag=131)
@dataclass(frozen=True, slots=True)
class Kept:
    ask: U64
    digest: Digest


@message(tag=132)
@dataclass(frozen=True, slots=True)
class Refused:
    ask: U64
    reason: Sentence


@message(tag=133)
@dataclass(frozen=True, slots=True)
class GetFragment:
    """`is_probe`: read it and check it, but send only its digest."""

    ask: U64
    fragment: FragmentName
    is_probe: Flag


@message(tag=134)
@dataclass(frozen=True, slots=True)
class Fragment:
    ask: U64
    digest: Digest


@message(tag=135)
@dataclass(frozen=True, slots=True)
class NoFragment:
    """It is not here, or not any more as it was: for good, unlike silence."""

    ask: U64
    reason: Sentence


@message(tag=136)
@dataclass(frozen=True, slots=True)
class DropFragments:
    """Of one instance (of all, if it is empty): every part older than (generation, epoch) that is not in `keep`."""

    ask: U64
    app: App
    instance: Annotated[str, text(128)]
    generation: U64
    epoch: U64
    keep: Annotated[tuple[Place, ...], listed(struct(Place), 2 * PARTS_MAX)]


@message(tag=137)
@dataclass(frozen=True, slots=True)
class Dropped:
    ask: U64
    fragments: U32


@message(tag=138)
@dataclass(frozen=True, slots=True)
class ListFragments:
    """In the order of their names, without the first `skip`."""

    ask: U64
    app: App
    skip: U32


@message(tag=139)
@dataclass(frozen=True, slots=True)
class Fragments:
    ask: U64
    held: Annotated[tuple[Held, ...], listed(struct(Held), PAGE_MAX)]
    is_more: Flag
    bytes_used: U64
    bytes_max: U64


Request = PutFragment | GetFragment | DropFragments | ListFragments
Reply = Kept | Refused | Fragment | NoFragment | Dropped | Fragments
REPLIES: Final = (Kept, Refused, Fragment, NoFragment, Dropped, Fragments)


def drop_all(ask: int, app: str) -> DropFragments:
    """The app has ended: nothing of it is needed any more."""
    return DropFragments(ask, app, "", LATEST, LATEST, ())


def drop_instance(ask: int, app: str, instance: str) -> DropFragments:
    """The instance is no more, and two epochs without it are committed."""
    return DropFragments(ask, app, instance, LATEST, LATEST, ())


def sentence_of(reason: str) -> str:
    """A reason that fits a message.

    >>> len(sentence_of("x" * 5000))
    1024
    """
    return reason.encode()[:1024].decode(errors="ignore")


