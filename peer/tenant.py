"""One app as one host has it: reserved, ready, running, over.

    reserved   room is kept; nobody knows more than a name
    ready      the bundle is verified and built; nothing flows
    running    sources speak
    ended      all input ended and everything was handed on      (good)
    halted     somebody stopped it                               (good)
    failed     it broke, here or elsewhere: `reason` says how

What is over stays for a while, so that the last rows can be read and the reason asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import trio

from dataflow.deploying.charter import Charter
from dataflow.engine.workers import Workers
from dataflow.hosting.assignment import InstanceId
from dataflow.plan import Plan
from overlay.contact import Contact
from overlay.ids import PeerId
from peer.kept_sink import KeptSink
from peer.share_trio import ShareRunner


class State(StrEnum):
    RESERVED = "reserved"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"
    HALTED = "halted"
    FAILED = "failed"


OVER = frozenset({State.ENDED, State.HALTED, State.FAILED})


@dataclass(slots=True)
class Tenant:
    app: str
    name: str
    generation: int
    slots: int
    memory_mib: int
    reserved_at: float
    """When room was last asked for: the hold counts from here until it begins."""
    release: Callable[[], None]
    """Gives the room back; may be called twice."""
    scheduler: Contact | None = None
    """Who led the launch, or took the app over since."""
    state: State = State.RESERVED
    reason: str = ""
    charter: Charter | None = None
    plan: Plan | None = None
    runner: ShareRunner | None = None
    sinks: dict[str, KeptSink] = field(default_factory=dict)
    workers: list[Workers] = field(default_factory=list)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def is_kept_by(self, peer: PeerId) -> bool:
        """Whoever hosts the first sink keeps the app."""
        return self.charter is not None and InstanceId(-1, 0) in self.charter.assignment.on(peer)

    def close_workers(self) -> None:
        """End the processes of Python functions; blocks until they have."""
        for worker in self.workers:
            worker.close()
        self.workers = []

    def end(self, state: State, reason: str = "") -> None:
        """Over, once; who comes second changes nothing."""
        if not self.is_over:
            self.state, self.reason = state, reason
            self.scope.cancel()
            self.release()
