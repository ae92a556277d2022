"""Peers come, leave, are killed, are shut out, and come back: real processes, real signals."""

import signal

from peer.healing import heal


def grow(fleet, *names):
    """Peers that join through the first one; returns them once all know each other."""
    first = fleet.start(names[0], zone="attic")
    fleet.await_listening([first])
    rest = [fleet.start(name, zone="attic", join=[first]) for name in names[1:]]
    fleet.await_ring()
    return [first, *rest]


def told(member, event, peer=None):
    return [it for it in member.events() if it["event"] == event and peer in (None, it.get("peer"))]


def test_a_peer_leaves_by_verb_and_the_others_hear_its_goodbye(fleet, peer):
    lamp, heater, kettle = grow(fleet, "lamp", "heater", "kettle")
    result = peer("leave", "--data", kettle.data)
    assert result.exit_code == 0
    assert kettle.wait() == 0
    fleet.await_ring()
    for survivor in (lamp, heater):
        assert told(survivor, "departed", kettle.peer)
        assert not told(survivor, "confirmed")
    assert not (kettle.data / "control.sock").exists()


def test_ctrl_c_is_a_goodbye_too(fleet):
    lamp, heater = grow(fleet, "lamp", "heater")
    heater.send(signal.SIGINT)
    assert heater.wait() == 0
    fleet.until(lambda: bool(told(lamp, "departed", heater.peer)), "lamp to hear of it", within_s=30)
    assert [it["event"] for it in heater.events()][-2:] == ["leaving", "ended"]


def test_a_killed_peer_is_missed_and_the_ring_heals(fleet):
    *survivors, victim = grow(fleet, "lamp", "heater", "kettle", "meter")
    repaired_s = heal(fleet, victim)
    assert len(repaired_s) == len(survivors)
    assert all(told(it, "confirmed", victim.peer) for it in survivors)


def test_a_peer_that_is_stopped_until_it_is_suspected_and_then_goes_on_is_never_confirmed(fleet):
    sleeper, *watchers = grow(fleet, "lamp", "heater", "kettle", "meter")
    sleeper.send(signal.SIGSTOP)
    try:
        fleet.until(lambda: any(told(it, "suspected", sleeper.peer) for it in watchers), "a suspicion", within_s=30)
    finally:
        sleeper.send(signal.SIGCONT)
    for each in watchers:
        fleet.until(lambda it=each: it.ask("status")["suspected"] == 0, "it to be trusted again", within_s=60)
    fleet.await_ring()
    assert [told(it, "confirmed") for it in fleet.members] == [[], [], [], []]


def test_a_restart_finds_the_ring_while_its_bootstrap_is_down(fleet):
    bootstrap, heater, kettle = grow(fleet, "lamp", "heater", "kettle")
    for member in (kettle, bootstrap):
        member.send(signal.SIGTERM)
        assert member.wait() == 0
    reborn = fleet.start("kettle", zone="attic", join=[bootstrap])
    fleet.await_ring()
    assert reborn.leaves() == {heater.peer}
    assert reborn.peer == kettle.peer


def test_a_killed_peer_leaves_its_socket_and_may_still_come_back(fleet):
    lamp, heater = grow(fleet, "lamp", "heater")
    heater.kill()
    assert (heater.data / "control.sock").exists()
    reborn = fleet.start("heater", zone="attic", join=[lamp])
    fleet.await_ring()
    assert reborn.peer == heater.peer


def test_a_revoked_peer_is_shut_out_by_those_who_only_heard_of_it(fleet, peer):
    lamp, heater, thief = grow(fleet, "lamp", "heater", "thief")
    result = peer("revoke", "thief", "--through", lamp.data, "--data", fleet.folder)
    assert result.exit_code == 0, result.output
    for honest in (lamp, heater):
        fleet.until(lambda it=honest: thief.peer not in it.leaves(), "the thief to be out", within_s=60)
    assert lamp.leaves() == {heater.peer}


def test_a_device_with_two_ids_lives_at_two_places(fleet):
    lamp = fleet.start("lamp", zone="attic")
    fleet.await_listening([lamp])
    big = fleet.start("server", zone="attic", join=[lamp], virtual=2)
    fleet.await_listening([big])
    ids = {big.peer, *big.ask("status")["virtual"]}
    assert len(ids) == 2
    fleet.until(lambda: lamp.leaves() == ids, "lamp to know both", within_s=60)
