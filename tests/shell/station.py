"""Real sockets for tests: stations that talk, strangers that misbehave, and waiting without sleeping."""

import functools
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import trio

from overlay.admission import Admission, Limits
from overlay.certificates import Authority, Issued, load_certificate, read_credential, to_der
from overlay.clock_trio import Clock
from overlay.connections_trio import Connections, Timing, Tls
from overlay.contact import Contact
from overlay.frames import NOBODY, Frame, FrameReader, control_frame
from overlay.ids import PeerId
from overlay.links import Address, Upcalls
from overlay.messages.session import PROTOCOL_VERSION, Hello
from overlay.signing import Signer
from overlay.sockets_trio import connect, open_listener
from overlay.streams_trio import PlainStream, Stream, TlsStream, tls_context
from overlay.wire import decode, encode

DEADLINE_S = 20.0
"""Nothing in these tests takes a second; whoever waits this long waits for ever."""
HANDSHAKE_S = 1.0
_folders = itertools.count()


def story(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test, within the deadline."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def bounded() -> None:
            with trio.fail_after(DEADLINE_S):
                await test(**fixtures)

        trio.run(bounded)

    return run


class Papers:
    """What a device carries: its certificate, its key, and the CA it believes in."""

    def __init__(self, folder: Path, authority: Authority, issued: Issued, *, believes: Authority | None = None):
        folder = folder / f"papers-{next(_folders)}"
        folder.mkdir()
        self.authority = believes or authority
        files = {
            "ca_file": self.authority.certificate_pem,
            "certificate_file": issued.certificate_pem,
            "key_file": issued.key_pem,
        }
        paths = {name: folder / name for name in files}
        for name, content in files.items():
            paths[name].write_bytes(content)
        self.server = tls_context(is_server=True, **paths)
        self.client = tls_context(is_server=False, **paths)
        self.signer = Signer.load(issued.key_pem)
        certificate = load_certificate(issued.certificate_pem)
        issued_at = certificate.not_valid_before_utc.timestamp()
        self.credential = read_credential(
            to_der(issued.certificate_pem), authority_certificate=authority.certificate, now=issued_at
        )

    def contacts(self, port: int, *, boot_ms: int = 1) -> tuple[Contact, ...]:
        return tuple(Contact(peer, "127.0.0.1", port, boot_ms=boot_ms) for peer in self.credential.peers)


class Cluster:
    """A CA, and papers from it."""

    def __init__(self, folder: Path, name: str = "attic") -> None:
        self.folder = folder
        self.authority = Authority.create(name, time.time(), days=10)

    def papers(
        self, *, days: float = 5, issued_at: float | None = None, believes: Authority | None = None, **options: Any
    ) -> Papers:
        now = time.time() if issued_at is None else issued_at
        issued = self.authority.issue("lamp", options.pop("role", "device"), now, days=days, **options)
        return Papers(self.folder, self.authority, issued, believes=believes)


class Station:
    """The connections of one process, and all that they reported."""

    def __init__(self, papers: Papers | None, contacts: tuple[Contact, ...], listener: Any, **options: Any) -> None:
        self.contacts = contacts
        self.me = contacts[0]
        self.received: list[tuple[PeerId, Contact, Any]] = []
        self.bodies: list[Frame] = []
        self.lost: list[tuple[PeerId, str]] = []
        self.observed: list[Any] = []
        self.revoked: set[int] = set()
        self._papers = papers
        self._listener = listener
        self._news = trio.lowlevel.ParkingLot()
        timing: Timing = options.pop("timing", None) or Timing(handshake_s=HANDSHAKE_S)
        cluster = options.pop("cluster", papers.credential.cluster if papers else "insecure")
        self.connections = Connections(
            admission=Admission(
                cluster=cluster,
                contacts=contacts,
                read=self._read if papers else None,
                limits=options.pop("limits", None) or Limits(),
            ),
            upcalls=Upcalls(
                received=lambda *it: self._note(self.received, it),
                received_data=lambda to, sender, frame: self._note(self.bodies, frame),
                link_lost=lambda *it: self._note(self.lost, it),
                observed=lambda it: self._note(self.observed, it),
            ),
            tls=Tls(papers.server, papers.client) if papers else None,
            clock=Clock(),
            rng=Random(1),
            timing=timing,
        )
        assert not options, options
        self.counters = self.connections.counters

    def _read(self, der: bytes, now: float) -> Any:
        assert self._papers is not None
        certificate = self._papers.authority.certificate
        return read_credential(der, authority_certificate=certificate, now=now, revoked=self.revoked)

    def _note(self, where: list[Any], what: Any) -> None:
        where.append(what)
        self._news.unpark_all()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until `condition` holds; it is looked at after every report."""
        while not condition():
            await self._news.park()

    async def refuses(self, reason: str, count: int = 1) -> None:
        await self.until(lambda: self.counters[f"refused.{reason}"] >= count)

    def send(self, to: "Station", message: Any) -> None:
        self.connections.send(self.me.peer, to.me, message)

    def heard(self) -> list[Any]:
        return [message for _, _, message in self.received]

    @property
    def address(self) -> tuple[str, int]:
        return (self.me.host, self.me.port)


@asynccontextmanager
async def station(papers: Papers | None, *, peers: tuple[PeerId, ...] = (), boot_ms: int = 1, **options: Any):
    """A station that listens, until the block ends."""
    listener = open_listener("127.0.0.1", 0)
    port = listener.getsockname()[1]
    ids = papers.credential.peers if papers and not peers else peers
    contacts = tuple(Contact(peer, "127.0.0.1", port, boot_ms=boot_ms) for peer in ids)
    it = Station(papers, contacts, listener, **options)
    async with trio.open_nursery() as nursery:
        await nursery.start(it.connections.run, listener)
        yield it
        nursery.cancel_scope.cancel()


class Stranger:
    """Somebody with a socket, and perhaps with papers, who says what he likes."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._reader = FrameReader()

    async def say(self, *raw: bytes) -> None:
        await self.stream.send_buffers(list(raw))

    async def hello(self, contacts: tuple[Contact, ...], *, cluster: str = "attic", version: int = PROTOCOL_VERSION):
        await self.say(to_stranger(Hello(version, cluster, True, contacts)))
        return await self.listen()

    async def listen(self) -> Any:
        """The next message; `StreamBrokenError` when the far end has had enough."""
        while True:
            space = self._reader.space()
            await self.stream.receive_exactly_into(space)
            for frame in self._reader.advance(len(space)):
                return decode(frame.content)


def to_stranger(message: Any) -> bytes:
    return control_frame(PeerId(NOBODY), PeerId(NOBODY), encode(message))


@asynccontextmanager
async def stranger_at(address: Address, papers: Papers | None, *, handshake: bool = True):
    """A connection to `address`: over TLS if he has papers, plain if not."""
    sock, _ = await connect(address)
    stream: Stream = TlsStream(sock, papers.client, is_server=False) if papers else PlainStream(sock)
    try:
        if handshake:
            await stream.handshake()
        yield Stranger(stream)
    finally:
        stream.close()


def stranger(to: Station, papers: Papers | None, *, handshake: bool = True):
    return stranger_at(to.address, papers, handshake=handshake)
