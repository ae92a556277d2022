"""One peer process from start to end: lock, control socket, runtime, log, signals.

The lock comes first: no other peer may use the folder. Then the control socket, so that whoever asks a peer
that is still starting hears so. Ctrl-C or SIGTERM lets the peer leave in good order; a second one ends it at
once.
"""

import errno
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import trio

from peer.answers import answers_of
from peer.app_host import AppHost
from peer.app_verbs import AppVerbs
from peer.complaint import Complaint, about_file
from peer.control_trio import serve
from peer.lock import hold
from peer.log import Entry, Log
from peer.metrics import metrics_page
from peer.metrics_trio import MetricsServer
from peer.runtime import PeerConfig, Runtime
from peer.visiting_trio import Visits

EXIT_BY_SIGNAL = 128
"""What a shell adds to a signal's number for a process that the signal ended."""


def live(config: PeerConfig, log: Log) -> int:
    """Run until told to leave. Returns the exit code: 0 after a leave in good order."""
    with hold(config.data_dir):
        try:
            return trio.run(_live, config, log, strict_exception_groups=True)
        except BaseExceptionGroup as group:
            _explain(group, config)


async def _live(config: PeerConfig, log: Log) -> int:
    runtime = Runtime(config, on_event=log.on_effect)
    host = AppHost(
        runtime,
        sources=config.sources,
        sinks=config.sinks,
        say=lambda event, sentence: log.write(Entry(event, sentence, {"sentence": sentence})),
    )
    verbs = AppVerbs(host)
    started_s = time.time()
    ended_by = 0
    metrics_address = ""

    def metrics() -> str:
        return metrics_page(runtime, host, started_s=started_s)

    def more() -> dict[str, Any]:
        return verbs.status() | ({"metrics": metrics_address} if metrics_address else {})

    async def tell_metrics(arguments: dict[str, Any]) -> Any:
        return metrics()

    answers = {
        **answers_of(runtime, started_s=started_s, more=more),
        **verbs.answers(),
        "metrics": tell_metrics,
    }
    runtime.on_visit(Visits(answers, runtime.counters).receive)

    async def obey(signals: AsyncIterator[int]) -> None:
        nonlocal ended_by
        async for number in signals:
            if ended_by:
                nursery.cancel_scope.cancel()
                return
            ended_by = number
            log.write(Entry("leaving", "leaving the ring; once more to end at once"))
            runtime.stop()

    async def be_a_peer(*, task_status: trio.TaskStatus[str]) -> None:
        nonlocal ended_by
        await runtime.run(task_status=task_status)
        ended_by = 0
        nursery.cancel_scope.cancel()

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals)
            await nursery.start(serve, config.data_dir, answers)
            address: str = await nursery.start(be_a_peer)
            nursery.start_soon(host.run)
            nursery.start_soon(verbs.scheduling.run)
            nursery.start_soon(verbs.publish)
            me = runtime.nodes[0].me
            zone = f" in {config.zone}" if config.zone else ""
            log.write(Entry("listening", f"listening on {address}{zone}", {"address": address}), me=me.peer)
            if config.metrics:
                metrics_address = await nursery.start(MetricsServer(config.metrics, metrics, runtime.counters).run)
                told = f"metrics on http://{metrics_address}/metrics"
                log.write(Entry("metrics", told, {"address": metrics_address}), me=me.peer)
    log.write(Entry("ended", "ended"))
    return EXIT_BY_SIGNAL + ended_by if ended_by else 0


def _causes(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _causes(each)
        else:
            yield each


def _explain(group: BaseExceptionGroup[BaseException], config: PeerConfig) -> NoReturn:
    """What a person can mend becomes a `Complaint`; anything else is a bug of ours and stays as it is."""
    causes = list(_causes(group))
    for cause in causes:
        if isinstance(cause, Complaint):
            raise cause from None
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno in LISTENING_TROUBLES:
            raise Complaint(
                f"Cannot listen on {config.listen if not config.metrics else f'{config.listen} or {config.metrics}'}: "
                f"{LISTENING_TROUBLES[cause.errno]}.",
                f"Choose another address with --listen{' or --metrics' if config.metrics else ''}; "
                "port 0 lets the system choose a free port.",
            ) from None
        if isinstance(cause, OSError) and isinstance(cause.filename, str | Path):
            raise about_file(cause, Path(cause.filename)) from None
    raise group


LISTENING_TROUBLES = {
    errno.EADDRINUSE: "the port is taken",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "no permission for that port",
    -2: "that host name has no address",
    -3: "that host name cannot be resolved now",
    -5: "that host name has no address",
}
