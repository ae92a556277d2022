"""What the machines here need from the peer around them: plain functions, so that the simulator can be one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dataflow.deploying.charter import Charter
from dataflow.generations.errands import ContactOf, Errands
from dataflow.hosting.share import Share
from dataflow.hosting.task import OnEpoch
from overlay.contact import Contact
from recovery.disk import Disk
from recovery.holders import Candidate


@dataclass(frozen=True, slots=True)
class Built:
    """A share with fresh operators, and how to let go of what they need (worker processes)."""

    share: Share
    close: Callable[[], None]


class Build(Protocol):
    def __call__(self, charter: Charter, on_epoch: OnEpoch | None) -> Built:
        """Verify and load the app, make our share of it. Blocks; `AppError` or `WireError` say what is wrong."""


@dataclass(frozen=True, slots=True)
class Ports:
    me: Contact
    errands: Errands
    disk: Disk
    build: Build
    contact_of: ContactOf
    holder: Callable[[], Candidate]
    """Ourselves, as a holder of fragments."""
    candidates: Callable[[], Sequence[Candidate]]
    """Others who may hold fragments for us."""
