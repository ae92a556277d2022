"""A lookup finds the nearest peers there are, as long as the peers know their own neighbours."""

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from overlay.lookup import PARALLEL_ASKS, Lookup
from tests.overlay.rings import contact_of, id_sets, keys
from tests.overlay.test_view import views_of


@settings(max_examples=100, deadline=None)
@given(id_sets(least=2), keys, st.integers(1, 12), st.data())
def test_it_ends_with_exactly_the_nearest_whatever_the_order_of_answers(peers, key, width, data):
    views = views_of(peers, leaves=12)
    me = data.draw(st.sampled_from(peers))
    lookup = Lookup(key, width=width, me=me, seeds=views[me].nearest(key, 2))
    open_asks = lookup.next()
    while open_asks:
        assert len(open_asks) <= PARALLEL_ASKS
        asked = open_asks.pop(data.draw(st.integers(0, len(open_asks) - 1)))
        lookup.on_found(asked.peer, views[asked.peer].nearest(key, 12))
        open_asks += lookup.next()
    assert lookup.is_done
    others = [peer for peer in peers if peer != me]
    assert [it.peer for it in lookup.nearest()] == sorted(others, key=lambda peer: peer ^ key)[:width]


@given(id_sets(least=2, most=20), keys, st.data())
def test_silent_peers_are_passed_over_and_never_answered_with(peers, key, data):
    dead = set(data.draw(st.lists(st.sampled_from(peers))))
    lookup = Lookup(key, width=4, me=peers[0], seeds=[contact_of(peer) for peer in peers])
    asked = 0
    while asks := lookup.next():
        for contact in asks:
            asked += 1
            if contact.peer in dead:
                lookup.on_silent(contact.peer)
            else:
                lookup.on_found(contact.peer, [])
    assert asked <= len(peers)
    assert lookup.is_done
    alive = [peer for peer in peers[1:] if peer not in dead]
    assert [it.peer for it in lookup.nearest()] == sorted(alive, key=lambda peer: peer ^ key)[:4]


def test_an_answer_nobody_asked_for_changes_nothing():
    me, known, liar, rumoured = (PeerId(Key(n)) for n in (9, 2, 5, 3))
    lookup = Lookup(Key(1), width=2, me=me, seeds=[contact_of(known)])
    lookup.on_found(liar, [contact_of(rumoured)])
    assert [it.peer for it in lookup.next()] == [known]
