"""Routing always makes progress and ends at the owner, for any set of ids."""

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.ids import Key, PeerId
from overlay.settings import Settings
from overlay.view import View
from tests.overlay.rings import contact_of, id_sets, keys


def views_of(peers: list[PeerId], *, choice: str = "proximity", leaves: int = 4) -> dict[PeerId, View]:
    """What a settled ring knows: exact leaf sets, and some contact in every cell that has one."""
    contacts = [contact_of(peer) for peer in peers]
    views = {}
    for me in contacts:
        view = views[me.peer] = View(me, Settings(leaves=leaves, cell_size=1, choice=choice))
        for other in contacts:
            if other is not me:
                view.see(other, now=0.0)
    return views


@settings(max_examples=150, deadline=None)
@given(id_sets(), keys, st.sampled_from(["proximity", "hops"]), st.integers(1, 24), st.data())
def test_every_hop_is_nearer_and_the_last_is_the_owner(peers, key, choice, leaves, data):
    views = views_of(peers, choice=choice, leaves=leaves)
    here = data.draw(st.sampled_from(peers))
    way = [here]
    while (hop := views[here].next_hop(key)) is not None:
        assert hop.peer ^ key < here ^ key
        here = hop.peer
        way.append(here)
    assert here == min(peers, key=lambda peer: peer ^ key)
    assert len(way) <= 41


@settings(deadline=None)
@given(id_sets(least=3), keys, st.data())
def test_a_suspect_is_avoided_where_another_way_exists(peers, key, data):
    view = views_of(peers)[peers[0]]
    before = view.next_hop(key)
    if before is not None and not view.leaves.covers(key):
        view.suspects.add(before.peer)
        after = view.next_hop(key)
        assert after is not None
        assert after.peer ^ key < peers[0] ^ key


def test_among_equals_the_quick_and_idle_peer_is_chosen():
    from overlay.vitals import Vitals

    me, high = PeerId(Key(0)), 8 << 156
    quick, slow = (contact_of(PeerId(Key(high | n))) for n in (2, 1))
    view = View(contact_of(me), Settings(leaves=1, cell_size=3))
    for contact in (contact_of(PeerId(Key(1))), quick, slow):
        view.see(contact, now=0.0)
    view.facts.measured(quick.peer, 0.010)
    view.facts.measured(slow.peer, 0.015)
    assert view.next_hop(Key(high)) is quick
    view.facts.reported(quick.peer, Vitals(cores=1, memory_mib=1, slots=1, slots_used=1, load=1.0))
    assert view.next_hop(Key(high)) is slow, "a loaded peer counts as farther"


def test_the_dead_are_not_raised_by_hearsay_but_by_their_own_word():
    view = View(contact_of(PeerId(Key(0))), Settings())
    other = contact_of(PeerId(Key(5)))
    view.see(other, now=0.0)
    view.bury(other, now=1.0)
    view.hear_of([other], now=2.0)
    assert view.get(other.peer) is None
    view.see(other, now=3.0)
    assert view.get(other.peer) is other


def test_a_grave_closes_after_a_minute_and_never_holds_a_later_life():
    view = View(contact_of(PeerId(Key(0))), Settings(grave_s=60.0))
    old, new = (contact_of(PeerId(Key(5)), boot_ms=boot_ms) for boot_ms in (1, 2))
    view.bury(old, now=0.0)
    assert view.is_buried(old, now=59.0)
    assert not view.is_buried(new, now=59.0)
    assert not view.is_buried(old, now=60.0)


def test_a_restarted_peer_is_known_by_its_new_address_only():
    view = View(contact_of(PeerId(Key(0))), Settings())
    old = Contact(PeerId(Key(5)), "127.0.0.1", 4000, boot_ms=1)
    new = Contact(PeerId(Key(5)), "127.0.0.1", 5000, boot_ms=2)
    view.see(old, now=0.0)
    view.see(new, now=1.0)
    view.see(old, now=2.0)  # a message of its former life that was still under way
    assert view.get(PeerId(Key(5))) is new
    assert [leaf.port for leaf in view.leaves] == [5000]
    assert [contact.port for contact in view.table] == [5000]


def test_one_silence_costs_nobody_his_place_two_do_and_a_leaf_keeps_it():
    view = View(contact_of(PeerId(Key(0))), Settings(leaves=1))
    leaf, far = contact_of(PeerId(Key(1))), contact_of(PeerId(Key(1 << 159)))
    view.see(leaf, now=0.0)
    view.see(far, now=0.0)
    assert not view.strike(far)
    assert view.get(far.peer) is far
    assert view.strike(far)
    assert view.get(far.peer) is None
    view.strike(leaf)
    view.strike(leaf)
    assert view.leaves.get(leaf.peer) is leaf


@given(id_sets(least=2), keys, st.integers(1, 30))
def test_nearest_is_sorted_complete_and_without_ourselves(peers, key, most):
    view = views_of(peers, leaves=8)[peers[0]]
    known = {contact.peer for contact in view.contacts()}
    assert [it.peer for it in view.nearest(key, most)] == sorted(known, key=lambda peer: peer ^ key)[:most]
    assert peers[0] not in known
