"""Messages and bodies over real sockets: reuse, crossing dials, goodbyes, restarts and slow readers."""

import os
import socket

import pytest
import trio

from overlay.connections_trio import Timing
from overlay.contact import Contact
from overlay.frames import BODY_BYTES_MAX
from overlay.ids import Key, PeerId
from overlay.links import LinkDown, LinkUp, UnreachableError
from overlay.messages.finding import FindNode
from tests.shell.station import HANDSHAKE_S, Cluster, Station, station, story, stranger

ALICE, BOB = PeerId(Key(0xA11CE)), PeerId(Key(0xB0B))


def ping(number: int) -> FindNode:
    return FindNode(number, Key(0), 1)


def links(it: Station) -> int:
    return sum(isinstance(each, LinkUp) for each in it.observed)


@pytest.mark.parametrize("is_secure", [True, False])
@story
async def test_many_messages_both_ways_share_one_connection(tmp_path, is_secure):
    cluster = Cluster(tmp_path)
    papers = [cluster.papers() if is_secure else None for _ in range(2)]
    ids = [() if is_secure else (each,) for each in (ALICE, BOB)]
    async with station(papers[0], peers=ids[0]) as alice, station(papers[1], peers=ids[1]) as bob:
        for number in range(50):
            alice.send(bob, ping(number))
        await bob.until(lambda: len(bob.received) == 50)
        bob.send(alice, ping(99))
        await alice.until(lambda: alice.received)
        assert bob.heard() == [ping(number) for number in range(50)]
        assert bob.received[0][:2] == (bob.me.peer, alice.me)
        assert alice.heard() == [ping(99)]
        assert links(alice) == links(bob) == 1


@story
async def test_virtual_peers_share_the_connection_of_their_devices(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers(virtual_peers=3)) as alice, station(cluster.papers(virtual_peers=2)) as bob:
        for sender in alice.contacts:
            for to in bob.contacts:
                alice.connections.send(sender.peer, to, ping(1))
        await bob.until(lambda: len(bob.received) == 6)
        pairs = {(sender.peer, to) for to, sender, _ in bob.received}
        assert pairs == {(sender.peer, to.peer) for sender in alice.contacts for to in bob.contacts}
        assert links(bob) == 1


@story
async def test_two_that_dial_each_other_at_once_lose_nothing(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as alice, station(cluster.papers()) as bob:
        for number in range(20):
            alice.send(bob, ping(number))
            bob.send(alice, ping(number))
        await alice.until(lambda: len(alice.received) >= 20)
        await bob.until(lambda: len(bob.received) >= 20)
        await alice.until(lambda: links(alice) == 2)
        for number in range(20, 40):
            alice.send(bob, ping(number))
            bob.send(alice, ping(number))
        await alice.until(lambda: len(alice.received) >= 40)
        await bob.until(lambda: len(bob.received) >= 40)
        everything = {ping(number) for number in range(40)}
        assert set(alice.heard()) == set(bob.heard()) == everything
        assert not alice.lost and not bob.lost


@story
async def test_the_largest_body_arrives_unchanged_over_tls_while_pings_overtake_it(tmp_path):
    cluster = Cluster(tmp_path)
    body = os.urandom(BODY_BYTES_MAX)
    order: list[str] = []
    async with station(cluster.papers()) as alice, station(cluster.papers()) as bob:
        alice.send(bob, ping(0))
        await bob.until(lambda: bob.received)

        async def keep_pinging() -> None:
            for number in range(1, 11):
                alice.send(bob, ping(number))
                await bob.until(lambda number=number: len(bob.received) > number)
                order.append("ping")

        async def take_body() -> None:
            await bob.until(lambda: bob.bodies)
            order.append("body")

        async with trio.open_nursery() as nursery:
            halves = [memoryview(body)[: BODY_BYTES_MAX // 3], memoryview(body)[BODY_BYTES_MAX // 3 :]]
            await alice.connections.send_data(alice.me.peer, bob.me, b"batch 1", halves)
            nursery.start_soon(take_body)
            nursery.start_soon(keep_pinging)
        (frame,) = bob.bodies
        assert bytes(frame.content) == b"batch 1"
        assert frame.body == body
        assert order.index("body") > 0, "no ping overtook the body"


@story
async def test_data_waits_for_room_and_keeps_its_order(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as alice, station(cluster.papers()) as bob:
        for number in range(12):
            await alice.connections.send_data(alice.me.peer, bob.me, b"%d" % number, [bytes(300_000)])
        await bob.until(lambda: len(bob.bodies) == 12)
        assert [int(bytes(frame.content)) for frame in bob.bodies] == list(range(12))


@story
async def test_an_idle_connection_ends_by_goodbye_and_nobody_takes_it_for_a_crash(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers(), timing=Timing(idle_s=0.05)) as alice, station(cluster.papers()) as bob:
        alice.send(bob, ping(1))
        for it in (alice, bob):
            await it.until(lambda it=it: any(isinstance(each, LinkDown) for each in it.observed))
        assert not alice.lost and not bob.lost
        bob.send(alice, ping(2))
        await alice.until(lambda: alice.received)
        assert alice.heard() == [ping(2)]


@story
async def test_what_is_queued_at_a_goodbye_still_arrives(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as alice, station(cluster.papers()) as bob:
        alice.send(bob, ping(0))
        await bob.until(lambda: bob.received)
        for number in range(1, 100):
            alice.send(bob, ping(number))
        await alice.connections.say_goodbye()
        await bob.until(lambda: len(bob.received) == 100)
        assert not bob.lost


@story
async def test_a_peer_that_dies_is_reported_and_one_that_comes_back_is_found_again(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as alice:
        async with station(papers) as bob:
            alice.send(bob, ping(1))
            await bob.until(lambda: bob.received)
            old = bob.me
        await alice.until(lambda: alice.lost)
        assert alice.lost == [(old.peer, "closed")]
        alice.connections.send(alice.me.peer, old, ping(2))
        await alice.until(lambda: len(alice.lost) == 2)
        assert alice.lost[1] == (old.peer, "refused")
        async with station(papers, boot_ms=2) as reborn:
            alice.send(reborn, ping(3))
            await reborn.until(lambda: reborn.received)
            assert reborn.heard() == [ping(3)]


@story
async def test_a_new_life_supersedes_the_old_one_while_that_still_seems_connected(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with station(cluster.papers()) as alice, station(papers) as old, station(papers, boot_ms=2) as new:
        old.send(alice, ping(1))
        await alice.until(lambda: alice.received)
        new.send(alice, ping(2))
        await alice.until(lambda: len(alice.received) == 2)
        alice.connections.send(alice.me.peer, new.me, ping(3))
        await new.until(lambda: new.received)
        await old.until(lambda: old.lost)
        assert alice.lost == [], "it is not lost: it has a new life"
        assert alice.received[1][1] == new.me


@story
async def test_an_address_where_somebody_else_lives_now_is_a_lost_link(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as alice, station(cluster.papers()) as bob:
        moved = Contact(ALICE, bob.me.host, bob.me.port)
        alice.connections.send(alice.me.peer, moved, ping(1))
        await alice.until(lambda: alice.lost)
        assert alice.lost == [(ALICE, "refused")]
        assert alice.counters["refused.id-mismatch"] == 1
        assert not bob.received


@story
async def test_a_failed_address_is_left_alone_for_a_while(tmp_path):
    cluster = Cluster(tmp_path)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = Contact(BOB, *nobody.getsockname())
        async with station(cluster.papers()) as alice:
            alice.connections.send(alice.me.peer, gone, ping(1))
            await alice.until(lambda: alice.lost)
            for number in range(100):
                alice.connections.send(alice.me.peer, gone, ping(number))
            assert alice.counters["dialled"] == 1
            assert alice.counters["dropped.backoff"] == 100
            with pytest.raises(UnreachableError):
                await alice.connections.send_data(alice.me.peer, gone, b"", [b"body"])


@pytest.mark.parametrize("host", ["..", "a" * 70, "\u00e9" * 80, "x\0y", "", "a b", "fe80::1%nowhere"])
@story
async def test_a_host_that_cannot_be_is_just_unreachable(tmp_path, host):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as alice:
        alice.connections.send(alice.me.peer, Contact(BOB, host, 4000), ping(1))
        await alice.until(lambda: alice.counters["dial-failed.no-connection"])
        with pytest.raises(UnreachableError):
            await alice.connections.greet((host, 4000))


@story
async def test_greeting_an_address_tells_who_lives_there(tmp_path):
    cluster = Cluster(tmp_path)
    async with station(cluster.papers()) as alice, station(cluster.papers(virtual_peers=2)) as bob:
        assert (await alice.connections.greet(bob.address)).contacts == bob.contacts
        assert (await alice.connections.greet(bob.address)).contacts == bob.contacts
        assert alice.counters["dialled"] == 1


@story
async def test_a_neighbour_that_stops_reading_never_blocks_the_sender(tmp_path):
    cluster = Cluster(tmp_path)
    papers = cluster.papers()
    async with (
        station(cluster.papers()) as alice,
        station(cluster.papers()) as bob,
        stranger(alice, papers) as sleeper,
    ):
        contacts = papers.contacts(4)
        await sleeper.hello(contacts)
        body = bytes(BODY_BYTES_MAX)
        with trio.move_on_after(HANDSHAKE_S):
            while True:
                await alice.connections.send_data(alice.me.peer, contacts[0], b"", [body])
        for number in range(2000):
            alice.connections.send(alice.me.peer, contacts[0], ping(number))
        assert alice.counters["dropped.outbox-full"] > 0
        alice.send(bob, ping(7))
        await bob.until(lambda: bob.received)
