"""Whole peers in one process, on real sockets."""

import time
from contextlib import asynccontextmanager

import trio

from overlay.certificates import Authority
from peer.identity import save_identity
from peer.runtime import PeerConfig, Runtime


class Ring:
    """Peers of one cluster, each with its folder, to be started and stopped as a test likes."""

    def __init__(self, folder, nursery: trio.Nursery) -> None:
        self.folder = folder
        self.authority = Authority.create("attic", time.time(), days=10)
        self._nursery = nursery
        self._ended: dict[Runtime, trio.Event] = {}

    def enrol(self, name: str, *, virtual_peers: int = 1):
        folder = self.folder / name
        if not (folder / "key.pem").exists():
            issued = self.authority.issue(name, "device", time.time(), days=5, virtual_peers=virtual_peers)
            save_identity(folder, ca_pem=self.authority.certificate_pem, issued=issued)
        return folder

    async def start(self, name: str, *, join: tuple[str, ...] = (), virtual_peers: int = 1, **options) -> Runtime:
        folder = self.enrol(name, virtual_peers=virtual_peers)
        runtime = Runtime(PeerConfig(data_dir=folder, join=join, **options))
        self._ended[runtime] = trio.Event()
        await self._nursery.start(self._run, runtime)
        return runtime

    async def _run(self, runtime: Runtime, *, task_status) -> None:
        await runtime.run(task_status=task_status)
        self._ended[runtime].set()

    async def stop(self, *runtimes: Runtime) -> None:
        for runtime in runtimes:
            runtime.stop()
        for runtime in runtimes:
            await self._ended[runtime].wait()


@asynccontextmanager
async def a_ring(folder):
    async with trio.open_nursery() as nursery:
        yield Ring(folder, nursery)
        nursery.cancel_scope.cancel()


async def event(runtime: Runtime, kind: type):
    """The next observation of this kind."""
    send, receive = trio.open_memory_channel[object](100)
    runtime.observe(lambda me, effect: send.send_nowait(effect) if isinstance(effect, kind) else None)
    return await receive.receive()
