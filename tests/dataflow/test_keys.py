"""Keys, hashes and slots: the same key is the same slot, whatever came before."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow.state.hashing import hash_columns
from dataflow.state.index import DIRECT_SPAN_MAX, Index
from dataflow.state.keys import Keys

ints = st.integers(-20, 20) | st.integers(-(1 << 62), 1 << 62) | st.just(DIRECT_SPAN_MAX * 3)


@given(st.lists(st.tuples(st.lists(ints, max_size=30), st.lists(st.integers(0, 40), max_size=10)), max_size=8))
@settings(max_examples=100, deadline=None)
def test_an_index_behaves_like_a_dict_that_numbers_its_keys(rounds):
    index = Index()
    slot_of: dict[int, int] = {}
    for keys, dropped in rounds:
        slots, fresh = index.intern(np.array(keys, np.int64))
        new = [key for key in dict.fromkeys(keys) if key not in slot_of]
        assert len(fresh) == len(new)
        for key, slot in zip(keys, slots.tolist(), strict=True):
            assert slot_of.setdefault(key, slot) == slot
        assert [slot_of[key] for key in new] == fresh.tolist()  # in order of first appearance
        assert len(set(slot_of.values())) == len(slot_of)
        gone = [list(slot_of)[at] for at in {at % len(slot_of) for at in dropped}] if slot_of else []
        index.release(np.array([slot_of.pop(key) for key in gone], np.int64))
        known = np.array([*slot_of, *gone], np.int64)
        assert index.find(known).tolist() == [*slot_of.values(), *[-1] * len(gone)]


def test_slots_are_reused_so_memory_follows_the_living():
    index = Index(direct=False)
    for step in range(200):
        slots, _ = index.intern(np.arange(step * 1000, step * 1000 + 1000) * 7_000_001)
        index.release(slots)
    assert index.slots.capacity <= 4096


values = st.none() | st.text(max_size=20)


@given(st.lists(values, min_size=1, max_size=40), st.integers(0, 39))
@settings(max_examples=80, deadline=None)
def test_strings_are_told_apart_and_named_again_also_in_slices(texts, cut):
    keys = Keys(["k"], [pa.string()])
    column = pa.array(texts, pa.string())
    keys.intern([column.slice(cut)], max(0, len(texts) - cut))
    slots, _ = keys.intern([column], len(texts))
    assert keys.columns(slots)[0].to_pylist() == texts
    assert len(set(slots.tolist())) == len(set(texts))


def test_a_null_among_integers_is_a_key_of_its_own():
    keys = Keys(["k"], [pa.int64()])
    before, _ = keys.intern([pa.array([5, 7])], 2)
    after, _ = keys.intern([pa.array([7, None, 5, 10**15])], 4)
    assert after.tolist()[0] == before[1] and after.tolist()[2] == before[0]
    assert keys.columns(after)[0].to_pylist() == [7, None, 5, 10**15]


def test_the_hash_never_changes():
    """Peers of different versions share these numbers: a change here moves every key."""
    columns = [pa.array([1, None], pa.int64()), pa.array(["a", "longer than eight"])]
    assert [int(word) for word in hash_columns(columns, 2)] == HASHES
    assert hash_columns([pa.array([1, -1], pa.int8())], 2).tolist() == hash_columns([pa.array([1, -1])], 2).tolist()
    assert hash_columns([pa.array(["x"], pa.large_string())], 1).tolist() == hash_columns([pa.array(["x"])], 1).tolist()
    assert hash_columns([pa.array([0.0, -0.0])], 2).tolist()[0] == hash_columns([pa.array([0.0, -0.0])], 2).tolist()[1]


HASHES = [1000711237183681463, 7588551775864906265]


def test_hashes_spread_evenly():
    words = hash_columns([pa.array([f"sensor-{n}" for n in range(20_000)])], 20_000)
    parts = np.bincount((words >> np.uint64(60)).astype(np.int64), minlength=16)
    assert parts.min() > 1000 and len(np.unique(words)) == 20_000
