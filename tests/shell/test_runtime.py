"""Whole peers in one process, on real sockets: joining, leaving, coming back without the bootstrap."""

import socket
import time

import pytest
import trio
import trio.testing

from overlay.certificates import Authority
from overlay.clock_trio import Clock
from overlay.denylist import sign_denylist
from overlay.effects import Departed, LeavesChanged
from overlay.ids import key_of
from peer.complaint import Complaint
from peer.identity import insecure_authority, load_identity, save_identity
from peer.runtime import PeerConfig, Runtime
from peer.timers import Timers
from tests.shell.ring import a_ring, event
from tests.shell.station import story


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@story
async def test_peers_join_and_a_key_has_one_owner_wherever_one_asks(tmp_path):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("a")
        others = [await ring.start(name, join=(first.listening_address,)) for name in "bcd"]
        for each in (first, *others):
            await each.joined.wait()
        key = key_of("alerts")
        owners = {(await each.route(key)).owner.peer for each in (first, *others)}
        peers = [each.nodes[0].me.peer for each in (first, *others)]
        assert owners == {min(peers, key=lambda peer: peer ^ key)}
        found = await others[0].find(key, width=3)
        assert [it.peer for it in found] == sorted(
            (peer for peer in peers if peer != others[0].nodes[0].me.peer), key=lambda peer: peer ^ key
        )


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")
@pytest.mark.parametrize("insecure", [False, True])
@story
async def test_a_ring_on_ipv6(tmp_path, insecure):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("a", listen="[::1]:0", insecure=insecure)
        assert first.listening_address.startswith("[::1]:")
        others = [
            await ring.start(name, listen="[::1]:0", join=(first.listening_address,), insecure=insecure)
            for name in "bc"
        ]
        for each in others:
            await each.joined.wait()
        assert (await others[0].publish("source", "readings", b"the attic's")).is_stored
        (record,) = (await others[1].get("source", "readings")).records
        assert record.value == b"the attic's"


@pytest.mark.parametrize("with_port", [False, True])
@story
async def test_others_dial_the_address_that_is_advertised(tmp_path, with_port):
    port = free_port()
    async with a_ring(tmp_path) as ring:
        advertise = f"localhost:{port}" if with_port else "localhost"
        first = await ring.start("a", listen=f"0.0.0.0:{port}", advertise=advertise)
        assert first.listening_address == f"localhost:{port}"
        second = await ring.start("b", join=(f"127.0.0.1:{port}",))
        await second.joined.wait()
        (leaf,) = second.nodes[0].leaves
        assert leaf.address == f"localhost:{port}"
        await ring.stop(second)
        again = await ring.start("b")
        await again.joined.wait()
        assert again.counters["dialled"] >= 1, "from its cache it knows only what was advertised"
        assert [leaf.address for leaf in again.nodes[0].leaves] == [f"localhost:{port}"]


@story
async def test_virtual_peers_of_one_device_are_all_in_the_ring(tmp_path):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("big", virtual_peers=3)
        second = await ring.start("small", join=(first.listening_address,))
        await first.joined.wait()
        await second.joined.wait()
        assert len(first.nodes) == 3
        assert {leaf.peer for leaf in second.nodes[0].leaves} == {node.me.peer for node in first.nodes}


@story
async def test_a_peer_that_stops_says_so_and_is_not_suspected(tmp_path):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("a")
        second = await ring.start("b", join=(first.listening_address,))
        await second.joined.wait()
        async with trio.open_nursery() as nursery:

            async def hear_it_leave() -> None:
                departed = await event(first, Departed)
                assert departed.contact.peer == second.nodes[0].me.peer

            nursery.start_soon(hear_it_leave)
            await trio.testing.wait_all_tasks_blocked()
            await ring.stop(second)
        assert first.counters["event.Suspected"] == first.counters["event.Confirmed"] == 0


@story
async def test_a_restart_finds_the_ring_while_every_bootstrap_is_down(tmp_path):
    async with a_ring(tmp_path) as ring:
        bootstrap = await ring.start("a")
        address = bootstrap.listening_address
        others = [await ring.start(name, join=(address,)) for name in "bc"]
        for each in others:
            await each.joined.wait()
        me = others[0].nodes[0].me
        await ring.stop(bootstrap, others[0])
        back = await ring.start("b", join=(address,))
        await back.joined.wait()
        assert back.nodes[0].me.supersedes(me)
        assert [leaf.peer for leaf in back.nodes[0].leaves] == [others[1].nodes[0].me.peer]


@story
async def test_an_insecure_peer_keeps_its_id_and_needs_no_enrolment(tmp_path):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("a", insecure=True)
        second = await ring.start("b", insecure=True, join=(first.listening_address,))
        await second.joined.wait()
        me = second.nodes[0].me.peer
        await ring.stop(second)
        again = await ring.start("b", insecure=True)
        await again.joined.wait()
        assert again.nodes[0].me.peer == me


@story
async def test_a_denylist_throws_a_connected_device_out_and_outlives_a_restart(tmp_path):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("a")
        thief = await ring.start("b", join=(first.listening_address,))
        await thief.joined.wait()
        serial = load_identity(ring.folder / "b", now=time.time()).credential.serial
        denylist = sign_denylist(ring.authority, [serial], version=1)
        assert first.deny(denylist.raw)
        assert not first.deny(denylist.raw)
        assert first.counters["refused.revoked"] >= 1
        assert serial in load_identity(ring.folder / "a", now=time.time()).denylist


@pytest.mark.parametrize(
    "options, words",
    [
        ({"insecure": True, "listen": "0.0.0.0:0"}, "for this machine alone"),
        ({"listen": "0.0.0.0:0"}, "Nobody can dial"),
        ({"advertise": "0.0.0.0"}, "Nobody can dial"),
        ({"advertise": "lamp:nonsense"}, "is not host:port"),
        ({"advertise": "two words"}, "is not host:port"),
        ({"listen": "nonsense"}, "is not host:port"),
        ({"join": ("nonsense",)}, "is not host:port"),
        ({}, "There is no identity"),
    ],
)
def test_what_a_person_got_wrong_is_said_with_its_way_out(tmp_path, options, words):
    with pytest.raises(Complaint, match=words):
        trio.run(Runtime(PeerConfig(data_dir=tmp_path, **options)).run)


def test_a_key_that_others_may_read_and_the_insecure_ca_are_refused(tmp_path):
    authority = insecure_authority()
    save_identity(
        tmp_path, ca_pem=authority.certificate_pem, issued=authority.issue("a", "device", time.time(), days=1)
    )
    with pytest.raises(Complaint, match="CA of --insecure"):
        load_identity(tmp_path, now=time.time())
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(Complaint, match="Others may read"):
        load_identity(tmp_path, now=time.time())


def test_a_device_whose_clock_lost_its_time_still_begins_a_later_life(tmp_path):
    authority = Authority.create("attic", time.time(), days=10)
    save_identity(
        tmp_path, ca_pem=authority.certificate_pem, issued=authority.issue("a", "device", time.time(), days=1)
    )
    (tmp_path / "boot").write_text("9999999999999")
    assert load_identity(tmp_path, now=time.time()).boot_ms == 10_000_000_000_000
    assert load_identity(tmp_path, now=time.time()).boot_ms == 10_000_000_000_001


def test_timers_come_in_order_and_a_nearer_one_is_not_kept_waiting():
    order: list[str] = []

    async def main() -> None:
        clock = Clock(wall_s=1000.0)
        timers = Timers(clock)
        async with trio.open_nursery() as nursery:
            timers.set(1060.0, order.append, "minute")
            nursery.start_soon(timers.run)
            await trio.testing.wait_all_tasks_blocked()
            timers.set(1001.0, order.append, "second")
            timers.set(1001.0, order.append, "second too")
            timers.set(1000.0, order.append, "now")
            await trio.sleep(120)
            assert clock.now() == pytest.approx(1120.0)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert order == ["now", "second", "second too", "minute"]


@story
async def test_a_whole_cluster_that_starts_at_once_becomes_one_ring_without_anybody_to_join(tmp_path):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("a", listen=f"127.0.0.1:{free_port()}")
        address = first.listening_address
        others = [await ring.start(name, join=(address,)) for name in "bcd"]
        for each in others:
            await each.joined.wait()
        everybody = {each.nodes[0].me.peer for each in (first, *others)}
        addresses = [each.listening_address for each in (first, *others)]
        await ring.stop(first, *others)
        again = [await ring.start(name, listen=at) for name, at in zip("abcd", addresses, strict=True)]
        for each in again:
            await each.joined.wait()
        for each in again:
            while {leaf.peer for leaf in each.nodes[0].leaves} | {each.nodes[0].me.peer} != everybody:
                await event(each, LeavesChanged)


@story
async def test_what_one_peer_offers_another_finds(tmp_path):
    async with a_ring(tmp_path) as ring:
        first = await ring.start("a")
        second = await ring.start("b", join=(first.listening_address,))
        await second.joined.wait()
        assert (await first.publish("source", "readings", b"the attic's")).is_stored
        (record,) = (await second.get("source", "readings")).records
        assert (record.publisher, record.value) == (first.nodes[0].me.peer, b"the attic's")
