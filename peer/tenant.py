"""One app as this device counts it: room that is kept for it, who scheduled it, and its tenancy.

What state it is in and why is the tenancy's word (dataflow/generations/tenancy.py). What is over stays for a while, so
that the last rows can be read and the reason asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dataflow.deploying.charter import Charter
from dataflow.generations.finished import FinishedStream
from dataflow.generations.tenancy import State, Tenancy
from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.share import Share
from dataflow.plan import Plan
from overlay.contact import Contact
from overlay.ids import PeerId

__all__ = ["State", "Tenant"]


@dataclass(slots=True)
class Tenant:
    tenancy: Tenancy
    reserved: int
    """The generation that room was last kept for."""
    slots: int
    memory_mib: int
    reserved_at: float
    """When room was last asked for: the hold counts from here until it begins."""
    release: Callable[[], None]
    """Gives the room back; may be called twice."""
    scheduler: Contact | None = None
    """Who led the launch, or took the app over since."""
    has_ended: bool = False
    """Was its end told and its room given back?"""
    told: tuple[int, State] | None = None
    """Generation and state as they were last told in its events."""

    @property
    def app(self) -> str:
        return self.tenancy.app

    @property
    def name(self) -> str:
        return self.tenancy.name

    @property
    def generation(self) -> int:
        return max(self.reserved, self.tenancy.generation)

    @property
    def state(self) -> State:
        return self.tenancy.state

    @property
    def reason(self) -> str:
        return self.tenancy.reason

    @property
    def is_over(self) -> bool:
        return self.tenancy.is_over

    @property
    def charter(self) -> Charter | None:
        return self.tenancy.charter

    @property
    def share(self) -> Share | None:
        return self.tenancy.share

    @property
    def plan(self) -> Plan | None:
        share = self.share
        return share.plan if share is not None else None

    @property
    def streams(self) -> dict[str, FinishedStream]:
        return self.tenancy.streams

    def is_kept_by(self, peer: PeerId) -> bool:
        """Whoever hosts the first sink lists the app."""
        return self.charter is not None and InstanceId(-1, 0) in self.charter.assignment.on(peer)
