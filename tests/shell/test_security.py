"""What somebody may try at our door: each is refused with its counted reason, and others are served."""

import socket
import ssl
import time
from contextlib import AsyncExitStack

import msgpack
import pytest

from overlay.admission import Limits
from overlay.certificates import Authority
from overlay.connections_trio import _connect
from overlay.frames import BODY_BYTES_MAX, FrameKind, Header, control_frame, data_frame, pack_header
from overlay.ids import Key, PeerId
from overlay.messages.finding import FindNode
from overlay.messages.session import Hello, TurnedAway, Welcome
from overlay.streams_trio import StreamBrokenError
from overlay.wire import encode
from tests.shell.station import Cluster, Papers, Station, station, story, stranger, to_stranger

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
                socks.append((await _connect(it.address))[0])
            await it.refuses("too-many-from-subnet")
        finally:
            for sock in socks:
                sock.close()
        await it.refuses("half-open", 2)
        await still_serves(it, cluster)
