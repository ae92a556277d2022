"""What keeper and hosts say to each other while an app runs.

    BeginEpoch    keeper -> host     "end epoch n"; also: "are you there?"          -> EpochBegun
    Acknowledge   host -> keeper     "all of mine have stored epoch n" + notes      -> Agreed | Declined
    Commit        keeper -> host     "epoch n stands"                               -> Agreed
    Nudge         host -> keeper     "an epoch would help now": an end, a full sink -> Agreed
    Keep          launcher -> member "you are one of its register" + charter        -> Agreed | Declined
    Watch         member -> member   "do you lead it?"                              -> Agreed | Declined
    Depart        host -> keeper     "I am leaving: move what I have"               -> Agreed | Declined
    Finish        a person -> keeper "end it": at once, or behind one more epoch    -> Agreed | Declined
    Over          keeper -> host     "it has failed, or was ended", up to an epoch  -> Agreed

Beside those of a launch (deploying/requests.py): a new generation is hosted and begun with the same `Host` and
`Begin`. All of them may be asked twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgpack

from dataflow.deploying.requests import AppId
from dataflow.generations.notes import Note, unpack_note
from dataflow.hosting.assignment import PLACES_MAX, InstanceId
from overlay.wire import U64, Flag, Sentence, WireError, message, one_of

NOTES_BYTES_MAX = 1 << 20


@message(tag=140)
@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """`committed`: the last epoch that stands, in case its `Commit` was lost.

    `holds`: sources stay silent behind the token, for the next generation begins there and nothing shall be replayed.
    """

    ask: U64
    app: AppId
    generation: U64
    epoch: U64
    committed: U64
    holds: Flag


@message(tag=141)
@dataclass(frozen=True, slots=True)
class EpochBegun:
    """The latest epoch that was begun here. Later than asked for: another keeper was ahead."""

    ask: U64
    epoch: U64


@message(tag=142)
@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The notes of our instances are the body."""

    ask: U64
    app: AppId
    generation: U64
    epoch: U64


@message(tag=143)
@dataclass(frozen=True, slots=True)
class Commit:
    """`is_last`: and with it the app has ended."""

    ask: U64
    app: AppId
    generation: U64
    epoch: U64
    is_last: Flag


@message(tag=144)
@dataclass(frozen=True, slots=True)
class Nudge:
    ask: U64
    app: AppId
    generation: U64


@message(tag=145)
@dataclass(frozen=True, slots=True)
class Keep:
    """The charter is the body."""

    ask: U64
    app: AppId
    life: U64


@message(tag=146)
@dataclass(frozen=True, slots=True)
class Watch:
    ask: U64
    app: AppId
    life: U64


@message(tag=147)
@dataclass(frozen=True, slots=True)
class Depart:
    ask: U64
    app: AppId


@message(tag=148)
@dataclass(frozen=True, slots=True)
class Finish:
    """`is_clean`: what was read shall be shown first."""

    ask: U64
    app: AppId
    is_clean: Flag
    reason: Sentence


@message(tag=149)
@dataclass(frozen=True, slots=True)
class Over:
    """The app is over in this way; what is committed up to `epoch` stands."""

    ask: U64
    app: AppId
    generation: U64
    epoch: U64
    phase: Annotated[str, one_of("ended", "halted", "failed", "data-loss")]
    reason: Sentence


def pack_notes(notes: Mapping[InstanceId, Note]) -> bytes:
    raw: bytes = msgpack.packb([[it.stage, it.index, note.pack()] for it, note in sorted(notes.items())])
    return raw


def unpack_notes(raw: bytes | bytearray | memoryview) -> dict[InstanceId, Note]:
    if len(raw) > NOTES_BYTES_MAX:
        raise WireError("oversize", f"notes of {len(raw)} bytes, at most {NOTES_BYTES_MAX}")
    try:
        listed: Any = msgpack.unpackb(raw, max_array_len=PLACES_MAX, max_map_len=0, max_ext_len=0)
        return {InstanceId(int(stage), int(index)): unpack_note(note) for stage, index, note in listed}
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise WireError("bad-notes", str(error)[:80] or type(error).__name__) from None
