"""What the share of an app wants done: values, for a shell to carry out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.stamps import NO_STAMP
from dataflow.messages import Message
from overlay.frames import Buffer
from overlay.ids import PeerId


@dataclass(frozen=True, slots=True)
class SendFrame:
    """A DATA frame of the transport. The buffers will not change any more."""

    peer: PeerId
    header: bytes
    body: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrived:
    """Something has reached a sink here. Say `taken(sink)` when it is dealt with, or no more will come."""

    sink: str
    message: Message
    stamp: int = NO_STAMP


@dataclass(frozen=True, slots=True)
class Ready:
    """A source that had to wait may be fed again."""

    source: str
    copy: int


@dataclass(frozen=True, slots=True)
class Snapshotted:
    """A token was aligned (or, with `is_final`, all input has ended): what `on_epoch` took of the instance's state."""

    instance: InstanceId
    epoch: int
    snapshot: Any
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class ReadRegister:
    """Somebody acts in a later generation of the app: look whether we are in it."""

    app: str
    generation: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A frame was dropped. `reason` is a short label for counters."""

    sender: PeerId
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Failed:
    """This share cannot go on; the sentence is for whoever launched the app."""

    app: str
    sentence: str
    error: BaseException | None = None


Effect = SendFrame | Arrived | Ready | Snapshotted | ReadRegister | Refused | Failed
