"""Shares of one app on several hosts, joined by a pipe of real bytes that repeats, delays and reorders them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from dataflow.batches import to_rows
from dataflow.hosting.assignment import Assignment, InstanceId, Place, assigned, sink_instance
from dataflow.hosting.effects import Arrived, Effect, Failed, ReadRegister, Refused, SendFrame
from dataflow.hosting.share import Share
from dataflow.messages import Data, End, Message
from dataflow.plan import Plan
from overlay.frames import FrameReader, data_frame
from overlay.ids import Key, PeerId
from overlay.wire import WireError

APP = "ab" * 32


def host(number: int) -> PeerId:
    return PeerId(Key(number + 1))


def spread_over(plan: Plan, hosts: Callable[[InstanceId], int], *, copies: dict[int, int] | None = None) -> Assignment:
    """Each instance where `hosts(instance)` says; a stage in as many copies as `copies` says (one)."""
    ids = [InstanceId(stage.id, at) for stage in plan.stages for at in range((copies or {}).get(stage.id, 1))]
    ids += [sink_instance(plan, name) for name in plan.sinks]
    return assigned(APP, 1, [Place(id_, host(hosts(id_)), 7) for id_ in ids])


class World:
    def __init__(
        self, plan: Plan, assignment: Assignment, *, seed: int = 0, faults: bool = True, **options: Any
    ) -> None:
        self.plan = plan
        self.assignment = assignment
        self.rng = random.Random(seed)
        self.faults = faults
        self.shares = {peer: Share(plan, assignment, peer, **options) for peer in assignment.peers()}
        self.wire: list[tuple[PeerId, PeerId, bytes]] = []
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in plan.sinks}
        self.marks: dict[str, list[Message]] = defaultdict(list)
        self.refused: list[Refused] = []
        self.failed: list[Failed] = []
        self.asked: list[ReadRegister] = []
        self.stuck: set[str] = set()
        self.frames = 0
        for peer in self.shares:
            self.do(peer, self.shares[peer].start())

    def do(self, peer: PeerId, effects: Iterable[Effect] | None) -> None:
        for effect in effects or ():
            if isinstance(effect, SendFrame):
                portions = data_frame(effect.peer, peer, effect.header, effect.body)
                raw = b"".join(bytes(buffer) for portion in portions for buffer in portion)
                self.wire.append((peer, effect.peer, raw))
            elif isinstance(effect, Arrived):
                if isinstance(effect.message, Data):
                    self.rows[effect.sink] += to_rows(effect.message.batch)
                else:
                    self.marks[effect.sink].append(effect.message)
                if effect.sink not in self.stuck:
                    self.shares[peer].taken(effect.sink)
            elif isinstance(effect, Refused):
                self.refused.append(effect)
            elif isinstance(effect, Failed):
                self.failed.append(effect)
            elif isinstance(effect, ReadRegister):
                self.asked.append(effect)

    def deliver(self) -> None:
        """One frame: any of the next few on the wire, sometimes twice."""
        at = self.rng.randrange(min(8, len(self.wire))) if self.faults else 0
        sender, to, raw = self.wire[at]
        if not (self.faults and self.rng.random() < 0.1):
            del self.wire[at]
        self.give(sender, to, raw)

    def give(self, sender: PeerId, to: PeerId, raw: bytes) -> None:
        self.frames += 1
        for frame in read(raw):
            try:
                frame.check_body()
            except WireError as error:
                self.refused.append(Refused(sender, error.reason, str(error)))
                continue
            assert (frame.to, frame.sender) == (to, sender)
            self.do(to, self.shares[to].feed(sender, frame.content, frame.body))

    def run(self, steps_max: int = 100_000) -> None:
        """Until nothing moves."""
        for _ in range(steps_max):
            if not self.once():
                return
        raise AssertionError("the world does not come to rest")

    def feed(self, source: str, message: Message, copy: int = 0) -> None:
        """Wait until the source is wanted, then feed it."""
        peer = self.assignment.peer_of(InstanceId(self.plan.sources[source], copy))
        share = self.shares[peer]
        for _ in range(100_000):
            if share.wants(source, copy):
                share.feed_source(source, message, copy)
                return
            if not self.once():
                break
        raise AssertionError(f"source {source} is never wanted again")

    def once(self) -> bool:
        """One frame or one step; False if there is neither."""
        able = [peer for peer, share in self.shares.items() if share.can_run()]
        if self.wire and (not able or self.rng.random() < 0.5):
            self.deliver()
        elif able:
            peer = self.rng.choice(able)
            self.do(peer, self.shares[peer].step())
        else:
            return False
        return True

    def end(self) -> dict[str, list[dict[str, Any]]]:
        for name, stage in self.plan.sources.items():
            for id_ in self.assignment.copies(stage):
                self.feed(name, End(), id_.index)
        self.run()
        assert not self.failed, self.failed
        assert all(share.ended for share in self.shares.values())
        return self.rows


def read(raw: bytes) -> list[Any]:
    reader, frames, at = FrameReader(), [], 0
    while at < len(raw):
        space = reader.space()
        taken = min(len(space), len(raw) - at)
        space[:taken] = raw[at : at + taken]
        at += taken
        frames += reader.advance(taken)
    return frames
