"""The simulator's own knowledge must be beyond doubt: it judges everything else."""

from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import ID_BITS, Key, PeerId
from sim.census import Census

ids = st.integers(0, 2**ID_BITS - 1)
crowded = st.integers(0, 255)


@given(st.one_of(st.sets(ids, max_size=80), st.sets(crowded, max_size=80)), ids | crowded, st.integers(1, 30))
def test_the_census_equals_brute_force(peers: set[int], key: int, count: int):
    census = Census(PeerId(Key(peer)) for peer in sorted(peers))
    assert census.nearest(Key(key), count) == sorted(peers, key=lambda peer: peer ^ key)[:count]


@given(st.lists(crowded, unique=True, min_size=2), st.data())
def test_who_comes_and_goes_is_counted(peers: list[int], data: st.DataObject):
    census = Census()
    for peer in peers:
        census.add(PeerId(Key(peer)))
    gone = data.draw(st.sampled_from(peers))
    census.remove(PeerId(Key(gone)))
    assert census.nearest(Key(0), 300) == sorted(set(peers) - {gone})
