"""A small world of holders: real machines on memory disks, with questions that travel as bytes and may be lost."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from overlay.ids import Key, PeerId
from overlay.wire import decode, encode
from recovery.coding.coded import code
from recovery.coding.sealing import seal
from recovery.custody.ask import Ask
from recovery.custody.audit import Audit
from recovery.custody.deposit import Deposit, Deposited
from recovery.custody.holder import Holder, open_holder, serve
from recovery.custody.messages import GetFragment, PutFragment
from recovery.custody.repair import Rebuild, Repair
from recovery.custody.retrieval import Gathered, Retrieval
from recovery.holders import Candidate
from recovery.manifest import Manifest
from recovery.naming import PartId
from tests.recovery.disks import Crash, MemoryDisk

KEY = bytes(range(32))
APP = "a" * 64
INSTANCE = "count/0"


class World:
    def __init__(self, peers=9, *, zones=3, quota=10**9, seed=0):
        self.quota = quota
        self.rng = Random(seed)
        self.disks = {PeerId(Key(it)): MemoryDisk() for it in range(1, peers + 1)}
        self.zones = {peer: f"zone-{peer % zones}" for peer in self.disks}
        self.holders: dict[PeerId, Holder] = {}
        self.down: set[PeerId] = set()
        self.loss = 0.0
        self.liars: dict[PeerId, Callable[[Any, bytes], tuple[Any, bytes]]] = {}
        self.on_ask: Callable[[Ask], None] = lambda ask: None
        self.asked: list[Ask] = []
        self._ask = 0
        for peer in self.disks:
            self.restart(peer)

    def restart(self, peer):
        self.holders[peer] = open_holder(self.disks[peer], bytes_max=self.quota)
        self.down.discard(peer)

    def kill(self, *peers):
        self.down.update(peers)

    def candidates(self):
        return [
            Candidate(peer, self.zones[peer], 5.0, self.quota - holder.bytes_used, 1e6)
            for peer, holder in self.holders.items()
            if peer not in self.down
        ]

    def numbers(self):
        self._ask += 10_000
        return self._ask

    def ask(self, ask):
        """The reply and its body, or None for silence."""
        self.asked.append(ask)
        self.on_ask(ask)
        if ask.to in self.down or self.rng.random() < self.loss:
            return None
        request = decode(encode(ask.request))
        try:
            reply, body = serve(self.holders[ask.to], self.disks[ask.to], request, bytes(ask.body))
        except Crash:
            self.kill(ask.to)
            return None
        if ask.to in self.liars:
            reply, body = self.liars[ask.to](reply, bytes(body))
        return None if self.rng.random() < self.loss else (decode(encode(reply)), bytes(body))

    def run(self, machine):
        """Drive a machine to its outcome; answers come in random order, some of them twice."""
        todo = deque(machine.begin())
        outcome = []
        while todo:
            if isinstance(todo[0], Ask):
                todo.rotate(-self.rng.randrange(sum(isinstance(it, Ask) for it in todo)) if len(todo) > 1 else 0)
            it = todo.popleft()
            if isinstance(it, Rebuild):
                todo.extend(machine.rebuilt(it.run()))
            elif not isinstance(it, Ask):
                outcome.append(it)
            else:
                answer = self.ask(it)
                number = it.request.ask
                is_put = isinstance(it.request, PutFragment) and isinstance(machine, Deposit)
                if answer is None:
                    todo.extend(machine.unanswered(number, "no answer within 1 s"))
                else:
                    said = answer[:1] if is_put else answer
                    todo.extend(machine.answered(number, *said))
                    assert machine.answered(number, *said) == [], "a second answer changed something"
                assert machine.unanswered(number, "late") == []
        assert len(outcome) == 1, f"one outcome, not {outcome}"
        return outcome[0]

    # What an owner does.

    def deposit(self, state, *, epoch, needed=4, total=6, number=0, generation=1, kind="base", **options):
        part = PartId(APP, INSTANCE, generation, epoch, number)
        coded = code(seal(KEY, part, state), needed=needed, total=total)
        fragments = dict(enumerate(coded.fragments))
        machine = Deposit(
            part, kind, coded.shape, fragments, candidates=self.candidates(), first_ask=self.numbers(), **options
        )
        return self.run(machine)

    def store(self, state, **options):
        outcome = self.deposit(state, **options)
        assert isinstance(outcome, Deposited), outcome
        return outcome.part

    def retrieve(self, part, **options):
        machine = Retrieval(APP, INSTANCE, part, epoch=part.epoch, first_ask=self.numbers(), **options)
        outcome = self.run(machine)
        return outcome.data(KEY) if isinstance(outcome, Gathered) else outcome

    def repair(self, part, *, gone=(), **options):
        machine = Repair(
            APP,
            INSTANCE,
            part,
            epoch=part.epoch,
            gone=gone,
            candidates=self.candidates(),
            first_ask=self.numbers(),
            **options,
        )
        return self.run(machine)

    def audit(self, part, *, gone=()):
        return self.run(Audit(APP, INSTANCE, part, gone=gone, first_ask=self.numbers()))

    def tell_all(self, request):
        return {peer: self.ask(Ask(peer, request)) for peer in self.holders}

    def bodies_sent(self):
        return [it for it in self.asked if isinstance(it.request, GetFragment) and not it.request.is_probe]


def a_manifest(*parts, generation=1, epoch=1):
    return Manifest(APP, INSTANCE, generation, epoch, tuple(parts))
