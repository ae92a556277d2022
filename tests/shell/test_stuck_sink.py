"""Two apps between the same two devices, over one TLS connection: a stuck sink stops its own app and nobody else's."""

from functools import partial

import numpy as np
import pyarrow as pa
import trio

from bench.share_runner import ShareRunner
from dataflow import App
from dataflow.connectors.generator import Generator
from dataflow.hosting.assignment import InstanceId, Place, assigned, sink_instance
from dataflow.hosting.edge_frames import APP_TAG_BYTES, app_tag
from dataflow.hosting.share import Share
from dataflow.messages import Data
from dataflow.plan import make_plan
from overlay.links import LinkUp
from tests.shell.station import Cluster, station, story

BATCHES, BATCH_ROWS = 60, 65_536  # 30 MiB: several times what both sides' windows hold
LIMITER = trio.CapacityLimiter(2)


def batches(read):
    """Numbered rows; `read` grows as the app takes them."""
    for at in range(BATCHES):
        read.append(at)
        yield pa.RecordBatch.from_pydict({"n": np.arange(at * BATCH_ROWS, (at + 1) * BATCH_ROWS)})


class Gathering:
    """A sink that keeps all numbers, but nothing before `opened`."""

    def __init__(self, *, is_open):
        self.opened = trio.Event()
        self.called = trio.Event()
        self.numbers = []
        if is_open:
            self.opened.set()

    async def take(self, message):
        self.called.set()
        await self.opened.wait()
        if isinstance(message, Data):
            self.numbers.append(message.batch.column("n"))

    def has_all_in_order(self):
        return np.array_equal(np.concatenate(self.numbers), np.arange(BATCHES * BATCH_ROWS))


class Pair:
    """An app whose source is on one station and whose operator and sink are on the other."""

    def __init__(self, name, alice, bob, *, is_open):
        app = App(name)
        app.source("numbers", schema={"n": "int64"}).select("n").sink("out")
        plan = make_plan(app.graph)
        self.id = name * 64
        self.read: list[int] = []
        self.sink = Gathering(is_open=is_open)
        places = {InstanceId(0, 0): alice, InstanceId(1, 0): bob, sink_instance(plan, "out"): bob}
        assignment = assigned(self.id, 1, [Place(it, at.me.peer, 1) for it, at in places.items()])
        contacts = {it.me.peer: it.me for it in (alice, bob)}

        def runner(at, sources, sinks):
            async def send(peer, header, body):
                await at.connections.send_data(at.me.peer, contacts[peer], header, body)

            share = Share(plan, assignment, at.me.peer)
            return ShareRunner(
                share, send=send, sources=sources, sinks=sinks, limiter=LIMITER, on_refused=self._on_refused
            )

        self.refused = []
        self.writer = runner(alice, {("numbers", 0): Generator(partial(batches, self.read))}, {})
        self.reader = runner(bob, {}, {"out": self.sink})

    def _on_refused(self, effect):
        self.refused.append(effect)


async def deliver(at, runners):
    """Hand every body that comes in to the share of its app."""
    while True:
        await at.until(lambda: at.bodies)
        frame = at.bodies.pop(0)
        runners[bytes(frame.content[:APP_TAG_BYTES])].feed(frame.sender, frame.content, frame.body)


@story
async def test_another_app_between_the_same_two_peers_goes_on(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as alice, station(cluster.papers()) as bob, trio.open_nursery() as nursery:
        await alice.connections.greet(bob.address)
        stuck, free = Pair("a", alice, bob, is_open=False), Pair("b", alice, bob, is_open=True)
        nursery.start_soon(deliver, alice, {app_tag(it.id): it.writer for it in (stuck, free)})
        nursery.start_soon(deliver, bob, {app_tag(it.id): it.reader for it in (stuck, free)})

        async with trio.open_nursery() as first:
            for runner in (stuck.reader, stuck.writer):
                first.start_soon(runner.run)
                runner.begin()
            await stuck.sink.called.wait()  # it has its first rows, and sits on them

            async with trio.open_nursery() as second:
                for runner in (free.reader, free.writer):
                    second.start_soon(runner.run)
                    runner.begin()
            assert free.sink.has_all_in_order()
            assert stuck.sink.numbers == []
            assert len(stuck.read) < BATCHES, "its source was read to the end: nothing held it back"
            stuck.sink.opened.set()

        assert stuck.sink.has_all_in_order()
        assert stuck.refused == free.refused == []
        assert sum(isinstance(it, LinkUp) for it in bob.observed) == 1
        nursery.cancel_scope.cancel()
