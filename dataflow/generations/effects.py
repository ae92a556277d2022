"""What a peer's apps want done: values, for a shell to carry out on trio or on virtual time.

`Do` is the only way to anything slow: disks, coding, building an app. It runs elsewhere and comes back with what it
returned, or with the exception that it raised. Those with the same key run one after the other, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dataflow.hosting.assignment import InstanceId
from overlay.contact import Contact
from overlay.frames import Buffer
from overlay.ids import PeerId


@dataclass(frozen=True, slots=True)
class Ask:
    """Put a numbered question, then tell `answered` or `unanswered`. `contact`: where it lives, if we know."""

    to: PeerId
    request: Any
    body: Buffer = b""
    within_s: float = 10.0
    contact: Contact | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    to: Contact
    reply: Any
    body: Buffer = b""


@dataclass(frozen=True, slots=True)
class Do:
    """`then` gets what `work` returned or raised, and the time; it gives further effects."""

    key: Hashable
    work: Callable[[], Any]
    then: Callable[[Any, float], list[Effect]]


@dataclass(frozen=True, slots=True)
class Later:
    """Call `woken` then, or a little later; earlier and more often does no harm."""

    at: float


@dataclass(frozen=True, slots=True)
class SendRows:
    """A frame of an edge. The buffers will not change any more."""

    to: Contact
    header: bytes
    body: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class OpenSource:
    """Feed a source from this offset on, until `CloseSources`."""

    app: str
    generation: int
    instance: InstanceId
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class CloseSources:
    app: str


@dataclass(frozen=True, slots=True)
class SyncSource:
    """What was fed of a source must be readable again after a power cut; then call `synced`."""

    app: str
    generation: int
    instance: InstanceId
    epoch: int


@dataclass(frozen=True, slots=True)
class TrimSource:
    app: str
    instance: InstanceId
    offset: int


@dataclass(frozen=True, slots=True)
class WriteSink:
    """Rows that stand: a connector may have them. `is_last`: nothing follows."""

    app: str
    sink: str
    batches: list[pa.RecordBatch]
    is_last: bool


@dataclass(frozen=True, slots=True)
class TakenIn:
    """A sink has taken rows whose oldest bears this stamp: see hosting/stamps.py."""

    app: str
    sink: str
    stamp: int
    rows: int


@dataclass(frozen=True, slots=True)
class Changed:
    """The app's state here is another: whoever shows or announces it may look."""

    app: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that a person may want to read."""

    app: str
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A frame was dropped; `reason` is a label for counters."""

    sender: PeerId
    reason: str


Effect = (
    Ask
    | Reply
    | Do
    | Later
    | SendRows
    | OpenSource
    | CloseSources
    | SyncSource
    | TrimSource
    | WriteSink
    | TakenIn
    | Changed
    | Noted
    | Refusal
)
