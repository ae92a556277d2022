"""Whoever is gone is replaced; whatever need not move stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.deploying.requests import Room
from dataflow.generations.reassign import reassign
from dataflow.generations.record import Record
from dataflow.hosting.assignment import InstanceId, Place, assigned
from dataflow.placement.candidates import DoesNotFit
from overlay.contact import Contact
from overlay.ids import Key, PeerId

SOURCE = InstanceId(0, 0)


def contact(number, *, boot_ms=1):
    return Contact(PeerId(Key(number)), "127.0.0.1", 4000 + number, zone=f"zone-{number % 3}", boot_ms=boot_ms)


def room(number, *, boot_ms=1, slots=8, used=0):
    return Room(contact(number, boot_ms=boot_ms), slots, used, 0.0)


def record(places):
    """`places`: peer by instance; the source is at home on peer 1."""
    made = [Place(it, PeerId(Key(peer)), 1) for it, peer in places.items()]
    return Record(
        name="app",
        life=1,
        assignment=assigned("ab" * 32, 1, made),
        contacts=tuple(contact(number) for number in range(1, 6)),
        members=(PeerId(Key(1)),),
        secret=bytes(32),
        homes={SOURCE: PeerId(Key(1))},
    )


def peers_of(move):
    return {it.instance: (int(it.peer), it.boot_ms) for it in move.assignment.places}


RECORD = record({SOURCE: 1, InstanceId(1, 0): 2, InstanceId(2, 0): 3, InstanceId(-1, 0): 3})


@given(st.sets(st.integers(2, 5), max_size=3))
def test_only_what_was_on_a_peer_that_is_gone_moves(gone):
    here = [room(number) for number in range(1, 6) if number not in gone]
    after = peers_of(reassign(RECORD, here))
    for instance, peer in {it.instance: int(it.peer) for it in RECORD.assignment.places}.items():
        assert after[instance][0] not in gone
        assert peer in gone or after[instance] == (peer, 1)


def test_a_source_is_away_with_its_device_and_back_with_it():
    away = reassign(RECORD, [room(number) for number in (2, 3, 4)])
    assert SOURCE not in peers_of(away) and away.homes[SOURCE] == 1
    later = RECORD.moved(away.assignment, away.contacts, away.homes)
    back = reassign(later, [room(1, boot_ms=9), *(room(number) for number in (2, 3, 4))])
    assert peers_of(back)[SOURCE] == (1, 9)


def test_a_device_that_brings_the_source_gets_a_copy_of_its_own():
    move = reassign(RECORD, [room(number) for number in range(1, 6)], offers={0: [contact(5)]})
    assert peers_of(move)[InstanceId(0, 1)] == (5, 1)
    assert move.homes[InstanceId(0, 1)] == 5


def test_a_peer_that_restarted_is_another_life():
    after = peers_of(reassign(RECORD, [room(1), room(2, boot_ms=5), room(3), room(4, used=7)]))
    assert after[InstanceId(1, 0)] != (2, 1), "its old life runs nothing any more"


def test_where_nobody_has_room_it_is_said():
    with pytest.raises(DoesNotFit, match="no peer that answers has room"):
        reassign(RECORD, [room(4, slots=1, used=1), room(5, slots=0)])
