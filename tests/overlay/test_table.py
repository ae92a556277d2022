"""The routing table keeps who has been there longest, and never more than a cell may hold."""

from hypothesis import given

from overlay.ids import ID_BITS, Key, PeerId, digit_at, shared_digits
from overlay.table import CHALLENGE_PAUSE_S, Table, key_in_cell
from tests.overlay.rings import contact_of, id_sets, keys

ME = PeerId(Key(0))


def in_cell(tail: int) -> PeerId:
    """Ids whose first digit is 8: one cell of row 0, seen from ME."""
    return PeerId(Key((8 << (ID_BITS - 4)) | tail))


@given(id_sets(), keys)
def test_every_contact_is_one_digit_nearer_to_the_keys_of_its_cell(peers, me):
    table = Table(PeerId(me), cell_size=3)
    for peer in peers:
        table.see(contact_of(peer), now=0.0)
    for peer in peers:
        for contact in table.towards(peer):
            assert shared_digits(contact.peer, peer) > shared_digits(PeerId(me), peer)


@given(id_sets(), keys)
def test_what_it_iterates_is_what_its_rows_hold(peers, me):
    table = Table(PeerId(me), cell_size=2)
    for number, peer in enumerate(peers):
        if number % 2:
            table.see(contact_of(peer), now=0.0)
        else:
            table.hear_of([contact_of(peer)], now=0.0)
    for peer in peers[::3]:
        table.remove(peer)
    in_rows = {contact.peer for row in range(40) for contact in table.row(row)}
    assert {contact.peer for contact in table} == in_rows
    assert len(table) == len(in_rows)
    assert all(table.get(peer) is not None for peer in in_rows)


def test_a_newcomer_waits_until_the_oldest_has_failed_to_answer():
    table = Table(ME, cell_size=2)
    first, second, third = (contact_of(in_cell(n)) for n in range(3))
    assert table.see(first, now=0.0) is None
    assert table.see(second, now=1.0) is None
    assert table.see(third, now=100.0) is first, "the least recently seen is to be pinged"
    assert table.get(third.peer) is None
    table.remove(first.peer)
    assert table.get(third.peer) is third, "the spare moves up"


def test_one_question_a_minute_however_many_want_in():
    table = Table(ME, cell_size=1)
    table.see(contact_of(in_cell(0)), now=0.0)
    asked = [table.see(contact_of(in_cell(n)), now=CHALLENGE_PAUSE_S + n) for n in range(1, 40)]
    assert [it is not None for it in asked].count(True) == 1
    assert table.see(contact_of(in_cell(99)), now=2 * CHALLENGE_PAUSE_S + 1) is not None


def test_hearsay_fills_gaps_and_displaces_nobody():
    table = Table(ME, cell_size=1)
    seen, rumoured = contact_of(in_cell(1)), contact_of(in_cell(2))
    table.see(seen, now=0.0)
    table.hear_of([rumoured], now=0.0)
    assert [contact.peer for contact in table] == [seen.peer]


@given(keys, keys, keys)
def test_a_key_for_a_cell_lies_in_that_cell(me, contact, tail):
    if me != contact:
        key = key_in_cell(PeerId(me), PeerId(contact), tail)
        row = shared_digits(PeerId(me), PeerId(contact))
        assert shared_digits(me, key) == row
        assert digit_at(key, row) == digit_at(contact, row)
