"""The leaf set is exact: whatever comes and goes, it holds the nearest of those who were there and stayed."""

from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from overlay.leafset import Change, LeafSet, nearest_by_brute_force
from tests.overlay.rings import contact_of, id_sets, keys


@given(id_sets(), keys, st.integers(1, 24), st.randoms(use_true_random=False))
def test_in_any_order_of_arrivals_it_equals_brute_force(peers, me, size, rng):
    leaves = LeafSet(PeerId(me), size)
    rng.shuffle(peers)
    for peer in peers:
        leaves.offer(contact_of(peer))
    assert [leaf.peer for leaf in leaves] == nearest_by_brute_force(me, peers, size)


@given(id_sets(least=2), keys, st.integers(1, 8), st.data())
def test_comings_and_goings_leave_it_exact_as_long_as_the_gaps_are_offered(peers, me, size, data):
    leaves, alive = LeafSet(PeerId(me), size), set()
    for peer in data.draw(st.lists(st.sampled_from(peers), max_size=80)):
        if peer in alive:
            alive.discard(peer)
            leaves.remove(peer)
            for other in sorted(alive):
                leaves.offer(contact_of(other))
        else:
            alive.add(peer)
            leaves.offer(contact_of(peer))
        assert [leaf.peer for leaf in leaves] == nearest_by_brute_force(me, alive, size)


@given(id_sets(least=2), keys, st.integers(1, 24))
def test_where_it_covers_a_key_it_knows_the_owner(peers, key, size):
    for me in peers[:5]:
        leaves = LeafSet(me, size)
        for peer in peers:
            leaves.offer(contact_of(peer))
        if leaves.covers(key):
            owner = leaves.owner(key)
            assert (owner.peer if owner else me) == min(peers, key=lambda peer: peer ^ key)


def test_a_change_says_who_came_and_who_had_to_go():
    leaves = LeafSet(PeerId(Key(0)), size=1)
    far, near = contact_of(PeerId(Key(8))), contact_of(PeerId(Key(1)))
    assert leaves.offer(far) == Change(far, None)
    assert leaves.offer(near) == Change(near, far.peer)
    assert leaves.offer(far) is None
    assert leaves.remove(far.peer) is None
    assert leaves.remove(near.peer) == Change(None, near.peer)


@given(id_sets(), id_sets(), keys, st.integers(1, 24))
def test_the_missing_are_exactly_those_who_would_be_leaves(known, named, me, size):
    leaves = LeafSet(PeerId(me), size)
    for peer in known:
        leaves.offer(contact_of(peer))
    exact = nearest_by_brute_force(me, {*known, *named}, size)
    missing = leaves.missing([contact_of(peer) for peer in named])
    assert [it.peer for it in missing] == [peer for peer in exact if peer not in leaves]


def test_a_hole_does_not_make_a_full_set_cover_the_world():
    near = [PeerId(Key(n)) for n in (1, 2, 3)]
    leaves = LeafSet(PeerId(Key(0)), size=3)
    for peer in near:
        leaves.offer(contact_of(peer))
    far_key = Key(1 << 150)
    assert not leaves.covers(far_key)
    leaves.remove(near[0])
    assert not leaves.covers(far_key), "there were more peers than fit; there still are"
    leaves.offer(contact_of(PeerId(Key(1 << 151))))
    assert not leaves.covers(far_key), "whoever fills the hole may live anywhere"
    leaves.settle()
    assert leaves.covers(far_key)


def test_we_are_never_our_own_leaf():
    leaves = LeafSet(PeerId(Key(7)), size=4)
    assert leaves.offer(contact_of(PeerId(Key(7)))) is None
    assert not leaves.lacks(contact_of(PeerId(Key(7))))
    assert len(leaves) == 0
