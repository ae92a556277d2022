"""What somebody may try at our door, or once inside: each is refused with its counted reason, and others are
served."""

import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import msgpack
import pytest
import trio

from overlay.admission import Limits
from overlay.certificates import Authority
from overlay.denylist import sign_denylist
from overlay.effects import Departed
from overlay.frames import BODY_BYTES_MAX, FrameKind, Header, control_frame, data_frame, pack_header
from overlay.ids import Key, PeerId
from overlay.messages.finding import FindNode
from overlay.messages.gossiping import DenylistNews
from overlay.messages.joining import Leaving
from overlay.messages.session import Hello, TurnedAway, Welcome
from overlay.messages.storing import Store, StoreReply
from overlay.records import Record, draft, sign_record
from overlay.sockets_trio import connect
from overlay.streams_trio import StreamBrokenError
from overlay.wire import encode
from peer.addresses import parse_address
from peer.runtime import Runtime
from tests.shell.ring import Ring, a_ring
from tests.shell.station import (
    Cluster,
    Papers,
    Station,
    Stranger,
    station,
    story,
    stranger,
    stranger_at,
    to_stranger,
)

SOMEBODY = PeerId(Key(0x5EED))
YEAR_S = 365 * 86400.0


async def still_serves(it: Station, cluster: Cluster) -> None:
    """An honest peer still gets in, and is heard."""
    async with station(cluster.papers()) as friend:
        before = len(it.received)
        friend.send(it, FindNode(1, Key(0), 1))
        await it.until(lambda: len(it.received) > before)


async def ends(it, *last_words: bytes) -> None:
    """The far end has had enough of us; perhaps even before we have said our last words."""
    with pytest.raises(StreamBrokenError):
        await it.say(*last_words)
        while True:
            await it.listen()


def message_from(papers: Papers, to: Station, content: bytes) -> bytes:
    return control_frame(to.me.peer, papers.credential.peers[0], content)


@story
async def test_a_certificate_of_a_foreign_ca_is_refused_though_its_own_handshake_succeeds(tmp_path):
    cluster, foreign = Cluster(tmp_path), Cluster(tmp_path)
    papers = foreign.papers(believes=cluster.authority)
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as thief:
            await ends(thief, to_stranger(Hello(1, "attic", True, papers.contacts(4))))
        await it.refuses("foreign-ca")
        assert it.counters["admitted"] == 0
        await still_serves(it, cluster)


@story
async def test_we_do_not_talk_to_a_listener_of_a_foreign_ca(tmp_path):
    cluster, foreign = Cluster(tmp_path), Cluster(tmp_path)
    async with station(cluster.papers()) as it, station(foreign.papers()) as trap:
        it.send(trap, FindNode(1, Key(0), 1))
        await it.refuses("foreign-ca")
        assert it.lost == [(trap.me.peer, "refused")]
        assert not trap.received
        await still_serves(it, cluster)


@pytest.mark.parametrize("age_s, days, reason", [(YEAR_S, 5, "expired"), (-YEAR_S, 5, "not-yet-valid")])
@story
async def test_a_certificate_out_of_its_time_is_refused(tmp_path, age_s, days, reason):
    cluster = Cluster(tmp_path)
    cluster.authority = Authority.create("attic", time.time() - 2 * YEAR_S, days=3650)
    papers = cluster.papers(issued_at=time.time() - age_s, days=days)
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as old:
            await ends(old, to_stranger(Hello(1, "attic", True, papers.contacts(4))))
        await it.refuses(reason)
        await still_serves(it, cluster)


@story
async def test_a_revoked_device_is_refused_and_told_so(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        it.revoked.add(papers.credential.serial)
        async with stranger(it, papers) as stolen:
            answer = await stolen.hello(papers.contacts(4))
        assert isinstance(answer, TurnedAway) and answer.reason == "revoked"
        await it.refuses("revoked")
        await still_serves(it, cluster)


@story
async def test_a_device_that_is_revoked_while_connected_is_thrown_out(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it, station(papers) as stolen:
        stolen.send(it, FindNode(1, Key(0), 1))
        await it.until(lambda: it.received)
        it.revoked.add(papers.credential.serial)
        it.connections.drop_distrusted()
        await stolen.until(lambda: stolen.lost)
        assert it.counters["refused.revoked"] == 1
        await still_serves(it, cluster)


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"cluster": "cellar"}, "wrong-cluster"),
        ({"version": 99}, "version"),
    ],
)
@story
async def test_another_cluster_or_version_is_refused_and_told_so(tmp_path, change, reason):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as lost:
            answer = await lost.hello(papers.contacts(4), **change)
        assert isinstance(answer, TurnedAway) and answer.reason == reason
        await it.refuses(reason)
        await still_serves(it, cluster)


@story
async def test_an_id_of_somebody_else_is_refused_at_hello_and_in_every_frame(tmp_path):
    cluster = Cluster(tmp_path)
    papers, victim = cluster.papers(), cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as liar:
            answer = await liar.hello(victim.contacts(4))
            assert isinstance(answer, TurnedAway) and answer.reason == "id-mismatch"
        async with stranger(it, papers) as liar:
            assert isinstance(await liar.hello(papers.contacts(4)), Welcome)
            await ends(liar, message_from(victim, it, encode(FindNode(1, Key(0), 1))))
        await it.refuses("id-mismatch", 2)
        assert not it.received
        await still_serves(it, cluster)


@story
async def test_our_own_certificate_from_elsewhere_is_refused_as_ourselves(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(papers) as it:
        async with stranger(it, papers) as copy:
            answer = await copy.hello(papers.contacts(4))
        assert isinstance(answer, TurnedAway) and answer.reason == "self"
        await still_serves(it, cluster)


@story
async def test_a_viewer_is_no_peer(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers(role="viewer")
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as viewer:
            answer = await viewer.hello(papers.contacts(4))
        assert isinstance(answer, TurnedAway) and answer.reason == "bad-role"


@story
async def test_a_replayed_hello_does_not_bring_back_an_old_life(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it, station(papers, boot_ms=2) as new:
        new.send(it, FindNode(1, Key(0), 1))
        await it.until(lambda: it.received)
        async with stranger(it, papers) as old:
            answer = await old.hello(papers.contacts(4, boot_ms=1))
        assert isinstance(answer, TurnedAway) and answer.reason == "duplicate"
        await it.refuses("duplicate")


def bomb(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


@pytest.mark.parametrize(
    "content, reason",
    [
        (bomb(60_000), "not-msgpack"),
        (b"\xdd\xff\xff\xff\xff", "not-msgpack"),
        (b"\xdf\xff\xff\xff\xff", "not-msgpack"),
        (msgpack.packb([1] * 60_000), "not-msgpack"),
        (msgpack.packb({1: 2}), "not-msgpack"),
        (msgpack.packb(msgpack.ExtType(1, b"x")), "not-msgpack"),
        (b"\xc1", "not-msgpack"),
        (b"", "not-msgpack"),
        (msgpack.packb([20, "text", b"x", 1]), "bad-field"),
        (msgpack.packb([20]), "bad-field"),
    ],
    ids=["nested", "array", "map", "long", "a-map", "ext", "never-used", "empty", "type", "count"],
)
@pytest.mark.parametrize("is_admitted", [True, False])
@story
async def test_a_msgpack_bomb_ends_its_connection_and_nothing_else(tmp_path, content, reason, is_admitted):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as bomber:
            if is_admitted:
                assert isinstance(await bomber.hello(papers.contacts(4)), Welcome)
            await ends(bomber, message_from(papers, it, content))
        await it.refuses(reason)
        await still_serves(it, cluster)


@story
async def test_an_unknown_message_is_counted_and_ignored_for_a_newer_peer_may_know_more(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as newer:
            await newer.hello(papers.contacts(4))
            await newer.say(message_from(papers, it, msgpack.packb([60_000, 1])))
            await newer.say(message_from(papers, it, encode(FindNode(7, Key(0), 1))))
            await it.until(lambda: it.received)
        assert it.counters["refused.unknown-message"] == 1
        assert it.heard() == [FindNode(7, Key(0), 1)]


@story
async def test_a_second_hello_in_the_middle_is_refused(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as confused:
            await confused.hello(papers.contacts(4))
            await ends(confused, to_stranger(Hello(1, "attic", True, papers.contacts(4))))
        await it.refuses("duplicate")


@story
async def test_who_speaks_before_hello_is_refused(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as rude:
            await rude.say(message_from(papers, it, encode(FindNode(7, Key(0), 1))))
            answer = await rude.listen()
        assert isinstance(answer, TurnedAway) and answer.reason == "no-hello"
        assert not it.received


def oversize(control_bytes: int, body_bytes: int) -> bytes:
    raw = bytearray(pack_header(Header(FrameKind.DATA, 0, 40, 0)))
    raw[4:12] = control_bytes.to_bytes(4, "big") + body_bytes.to_bytes(4, "big")
    return bytes(raw)


@pytest.mark.parametrize(
    "is_admitted, raw",
    [
        (True, oversize(40, BODY_BYTES_MAX + 1)),
        (True, oversize(2**32 - 1, 0)),
        (False, oversize(2**32 - 1, 0)),
        (False, b"".join(map(bytes, next(data_frame(SOMEBODY, SOMEBODY, b"", [b"before hello"]))))),
    ],
)
@story
async def test_an_oversize_frame_is_refused_from_its_header(tmp_path, is_admitted, raw):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as greedy:
            if is_admitted:
                await greedy.hello(papers.contacts(4))
            await ends(greedy, raw)
        await it.refuses("oversize")
        await still_serves(it, cluster)


@story
async def test_a_damaged_body_is_refused(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as it:
        async with stranger(it, papers) as clumsy:
            await clumsy.hello(papers.contacts(4))
            (portion,) = data_frame(it.me.peer, papers.credential.peers[0], b"", [b"precious"])
            await ends(clumsy, bytes(portion[0]), b"pretious")
        await it.refuses("bad-crc")
        assert not it.bodies


@pytest.mark.parametrize("does_handshake", [True, False])
@story
async def test_a_half_open_connection_is_dropped_at_its_deadline(tmp_path, does_handshake):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as it, stranger(it, cluster.papers(), handshake=does_handshake):
        await still_serves(it, cluster)
        await it.refuses("half-open")


@pytest.mark.parametrize("is_secure", [True, False])
@story
async def test_who_hangs_up_before_we_have_looked_harms_nobody(tmp_path, is_secure):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers() if is_secure else None, peers=() if is_secure else (SOMEBODY,)) as it:
        for _ in range(5):
            with socket.create_connection(it.address) as hasty:
                # Closed by a reset, and while it still waits to be accepted.
                hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await it.refuses("half-open", 5)
        if is_secure:
            await still_serves(it, cluster)


@story
async def test_half_open_connections_do_not_crowd_out_those_we_dial(tmp_path):
    cluster = Cluster(tmp_path)
    limits = Limits(pending_max=2)
    async with (
        station(cluster.papers(), limits=limits) as it,
        station(cluster.papers()) as friend,
        AsyncExitStack() as strangers,
    ):
        for _ in range(3):
            await strangers.enter_async_context(stranger(it, cluster.papers(), handshake=False))
        await it.refuses("too-many-pending")
        it.send(friend, FindNode(1, Key(0), 1))
        await friend.until(lambda: friend.received)


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64, b"SSH-2.0-OpenSSH_9\r\n"])
@story
async def test_a_plain_client_on_the_tls_port_is_refused(tmp_path, words):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as it:
        async with stranger(it, None) as plain:
            await plain.say(words)
            await it.refuses("not-tls")
        await still_serves(it, cluster)


@story
async def test_tls_12_and_a_client_without_a_certificate_are_refused(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as it:
        for reason in ("no-certificate", "version"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            if reason == "version":
                context.maximum_version = ssl.TLSVersion.TLSv1_2
            papers = cluster.papers()
            papers.client = context
            async with stranger(it, papers, handshake=False) as nameless:
                try:
                    await nameless.stream.handshake()
                    await ends(nameless)
                except (ssl.SSLError, StreamBrokenError):
                    pass
            await it.refuses(reason)
        await still_serves(it, cluster)


@story
async def test_a_tls_client_on_an_insecure_port_is_refused(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(None, peers=(SOMEBODY,)) as it:
        async with stranger(it, cluster.papers(), handshake=False) as tls:
            with pytest.raises((ssl.SSLError, StreamBrokenError)):
                await tls.stream.handshake()
        await it.refuses("not-a-frame")


@story
async def test_one_peer_may_not_open_more_connections_than_its_share(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    limits = Limits(per_peer_max=2)
    async with station(cluster.papers(), limits=limits) as it:
        async with stranger(it, papers) as one, stranger(it, papers) as two, stranger(it, papers) as three:
            answers = [await each.hello(papers.contacts(4)) for each in (one, two, three)]
        assert [type(answer) for answer in answers] == [Welcome, Welcome, TurnedAway]
        assert answers[2].reason == "too-many-from-peer"
        await it.refuses("too-many-from-peer")
        await still_serves(it, cluster)


@story
async def test_one_subnet_may_not_open_more_connections_than_its_share(tmp_path):
    cluster = Cluster(tmp_path)
    limits = Limits(per_loopback_max=2)
    async with station(cluster.papers(), limits=limits) as it:
        socks: list[socket.socket] = []
        try:
            for _ in range(3):
                socks.append((await connect(it.address))[0])
            await it.refuses("too-many-from-subnet")
        finally:
            for sock in socks:
                sock.close()
        await it.refuses("half-open", 2)
        await still_serves(it, cluster)


# Records, at a whole running peer: its door is open to the sender, for he has good papers.


def record_of(papers: Papers, *, kind: str = "source", value: bytes = b"lumen", age_s: float = 0.0, **more) -> Record:
    """What `papers` offer as "light", signed; `more` is changed before that."""
    blank = draft(kind, "light", publisher=papers.credential.peers[0], value=value, now=time.time() - age_s, ttl_s=60.0)
    return sign_record(replace(blank, **more), signer=papers.signer, certificate=papers.credential.der)


class Insider:
    """An admitted device that says what it likes to a running peer."""

    def __init__(self, papers: Papers, to: Runtime, line: Stranger) -> None:
        self.papers = papers
        self._to = to
        self._line = line

    async def tell(self, message) -> None:
        await self._line.say(control_frame(self._to.nodes[0].me.peer, self.papers.credential.peers[0], encode(message)))

    async def leave(self) -> None:
        """In good order: else those who join afterwards wait until it is known to be dead."""
        has_left = trio.Event()
        goodbye = Departed(self.papers.contacts(4)[0])
        self._to.observe(lambda _, effect: has_left.set() if effect == goodbye else None)
        await self.tell(Leaving(0, ()))
        await has_left.wait()

    async def store(self, *records: Record) -> list[str]:
        """Ask it to keep `records`; the reasons for which it did not."""
        await self.tell(Store(7, False, records))
        while True:
            reply = await self._line.listen()
            if isinstance(reply, StoreReply):
                return [refusal.reason for refusal in reply.refused]


@asynccontextmanager
async def insider(ring: Ring, to: Runtime, papers: Papers | None = None):
    papers = papers or papers_of(ring)
    async with stranger_at(parse_address(to.listening_address), papers) as line:
        assert isinstance(await line.hello(papers.contacts(4)), Welcome)
        it = Insider(papers, to, line)
        yield it
        await it.leave()


def papers_of(ring: Ring, authority: Authority | None = None, *, role: str = "device") -> Papers:
    authority = authority or ring.authority
    return Papers(ring.folder, authority, authority.issue("lamp", role, time.time(), days=5))


async def still_keeps_records(ring: Ring, it: Runtime) -> None:
    """An honest peer still joins through it, and finds at it what it offered."""
    friend = await ring.start("friend", join=(it.listening_address,))
    await friend.joined.wait()
    assert (await friend.publish("source", "heat", b"kelvin")).copies >= 1
    (record,) = (await it.get("source", "heat")).records
    assert record.value == b"kelvin"


def held(it: Runtime) -> list[Record]:
    return it.nodes[0].directory.held(it.now())


def with_the_signature_of(other: Record, record: Record) -> Record:
    return replace(record, signature=other.signature)


FRAUDS: dict[str, tuple[str, Callable[[Papers, Ring], Record]]] = {
    "signed over other bytes": (
        "forged",
        lambda mine, ring: with_the_signature_of(record_of(mine, value=b"lux"), record_of(mine)),
    ),
    "changed on the way": ("forged", lambda mine, ring: replace(record_of(mine), value=b"dark")),
    "longer life than signed": ("forged", lambda mine, ring: replace(record_of(mine), ttl_s=86_400.0)),
    "in another's name": ("wrong-publisher", lambda mine, ring: record_of(mine, publisher=SOMEBODY)),
    "under another's certificate": (
        "forged",
        lambda mine, ring: with_the_signature_of(record_of(mine), record_of(papers_of(ring))),
    ),
    "at a key of its choice": ("wrong-key", lambda mine, ring: record_of(mine, key=Key(1))),
    "over": ("expired", lambda mine, ring: record_of(mine, age_s=61.0)),
    "from the future": ("from-the-future", lambda mine, ring: record_of(mine, age_s=-YEAR_S)),
    "for ever": ("bad-ttl", lambda mine, ring: record_of(mine, ttl_s=YEAR_S)),
    "an app, by a mere device": ("role", lambda mine, ring: record_of(mine, kind="app")),
    "of a foreign CA": (
        "foreign-ca",
        lambda mine, ring: record_of(papers_of(ring, Authority.create("attic", time.time(), days=5))),
    ),
}


@pytest.mark.parametrize("reason, fraud", FRAUDS.values(), ids=FRAUDS)
@story
async def test_a_record_that_nobody_vouches_for_is_refused_by_a_running_peer(tmp_path, reason, fraud):
    async with a_ring(tmp_path) as ring:
        it = await ring.start("a")
        async with insider(ring, it) as liar:
            assert await liar.store(fraud(liar.papers, ring)) == [reason]
            assert it.counters[f"refused.{reason}"] == 1
            assert held(it) == []
            honest = record_of(liar.papers)
            assert await liar.store(honest) == [], "one lie does not spoil the rest"
            assert held(it) == [honest]
        await still_keeps_records(ring, it)


@story
async def test_a_replayed_record_is_refused_whoever_sends_it_again(tmp_path):
    async with a_ring(tmp_path) as ring:
        it = await ring.start("a")
        async with insider(ring, it) as lamp, insider(ring, it) as eavesdropper:
            old = record_of(lamp.papers, sequence=1)
            withdrawn = record_of(lamp.papers, sequence=2, value=b"", is_withdrawn=True)
            assert await lamp.store(old) == []
            assert await lamp.store(withdrawn) == []
            assert await eavesdropper.store(old) == ["replayed"]
            assert it.counters["refused.replayed"] == 1
            assert held(it) == [withdrawn]
            assert await eavesdropper.store(withdrawn) == [], "the newest, once more, does no harm"
            assert it.counters["refused.replayed"] == 1
        await still_keeps_records(ring, it)


@story
async def test_the_records_of_a_revoked_publisher_are_dropped_and_not_taken_again(tmp_path):
    async with a_ring(tmp_path) as ring:
        it = await ring.start("a")
        thief = papers_of(ring)
        stolen, honest = record_of(thief), record_of(papers_of(ring))
        async with insider(ring, it) as messenger:
            assert await messenger.store(stolen, honest) == []
            denylist = sign_denylist(ring.authority, [thief.credential.serial], version=1)
            await messenger.tell(DenylistNews(denylist.raw))
            assert await messenger.store(stolen) == ["revoked"]
            assert it.counters["refused.revoked"] == 1
            assert held(it) == [honest]
            await messenger.tell(DenylistNews(sign_denylist(ring.authority, [], version=2).raw))
            assert await messenger.store(stolen) == [], "the CA may take it back"
        await still_keeps_records(ring, it)


@story
async def test_a_restarted_peer_still_refuses_the_records_of_the_revoked(tmp_path):
    async with a_ring(tmp_path) as ring:
        it = await ring.start("a")
        thief = papers_of(ring)
        it.deny(sign_denylist(ring.authority, [thief.credential.serial], version=1).raw)
        await ring.stop(it)
        again = await ring.start("a")
        async with insider(ring, again) as messenger:
            assert await messenger.store(record_of(thief)) == ["revoked"]


@story
async def test_a_denylist_that_our_ca_did_not_sign_shuts_nobody_out(tmp_path):
    async with a_ring(tmp_path) as ring:
        it = await ring.start("a")
        foreign = Authority.create("attic", time.time(), days=5)
        async with insider(ring, it) as liar:
            honest = papers_of(ring)
            await liar.tell(DenylistNews(sign_denylist(foreign, [honest.credential.serial], version=9).raw))
            assert await liar.store(record_of(honest)) == []
            assert it.counters["refused.forged"] == 1
        await still_keeps_records(ring, it)


@story
async def test_a_stranger_that_claims_a_ring_does_not_lure_a_lone_peer_out_of_its_own(tmp_path):
    async with a_ring(tmp_path) as ring:
        it = await ring.start("a")
        await it.joined.wait()
        async with insider(ring, it) as liar:
            for sequence in range(1, 6):
                await liar.store(record_of(liar.papers, sequence=sequence))
                assert it.nodes[0].is_member
