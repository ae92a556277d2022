"""Which rows belong together, against nested loops; and the buffer they wait in, against a plain list."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow.state.matching import CODES_PER_ROW_MAX, by_code, codes, equal_pairs, shared_codes
from dataflow.state.row_buffer import RowBuffer

numbers = st.one_of(st.none(), st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
words = st.sampled_from(["a", "b", "", None])
keys = st.lists(st.tuples(numbers, words), max_size=20)


def columns(rows):
    return [pa.array([n for n, _ in rows], pa.int64()), pa.array([w for _, w in rows], pa.string())]


@given(keys, keys)
def test_equal_pairs_are_those_of_nested_loops_and_null_matches_nothing(left, right):
    one, other = shared_codes(columns(left), columns(right), (len(left), len(right)))
    found = list(zip(*(part.tolist() for part in equal_pairs(one, other)), strict=True))
    expected = [
        (i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b and None not in a and None not in b
    ]
    assert found == expected


@given(keys, st.booleans())
def test_codes_are_small_and_equal_where_keys_are(rows, by_appearance):
    found = codes(columns(rows), len(rows), nulls_match=True, by_appearance=by_appearance).tolist()
    assert all(0 <= code < CODES_PER_ROW_MAX * len(rows) for code in found)
    assert all((a == b) == (found[i] == found[j]) for i, a in enumerate(rows) for j, b in enumerate(rows))
    if by_appearance:
        assert list(dict.fromkeys(found)) == sorted(set(found))


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**40)), max_size=30))
def test_rows_of_a_code_stay_in_order_of_arrival(values):
    given_codes = np.array(values, np.int64)
    assert by_code(given_codes).tolist() == np.argsort(given_codes, kind="stable").tolist()


step = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 9), max_size=6)),
    st.tuples(st.just("take"), st.integers(0, 10)),
    st.tuples(st.just("retain"), st.integers(2, 3)),
    st.tuples(st.just("all"), st.just(0)),
    st.tuples(st.just("clean"), st.just(0)),
    st.tuples(st.just("dump"), st.booleans()),
)


@given(st.lists(step, max_size=12))
@settings(max_examples=200, deadline=None)
def test_the_buffer_is_a_list_of_rows_some_of_which_are_in_a_snapshot(steps):
    buffer = RowBuffer(["id"], pa.schema([("id", pa.int64())]))
    wanted: list[tuple[int, int, bool]] = []  # id, number, is new
    next_id = 0
    for what, value in steps:
        if what == "append":
            ids = list(range(next_id, next_id + len(value)))
            next_id += len(value)
            buffer.append(pa.record_batch({"id": pa.array(ids, pa.int64())}), np.array(value, np.int64))
            wanted += [(i, number, True) for i, number in zip(ids, value, strict=True)]
        elif what == "take":
            rows, taken = buffer.take_below(value)
            found = list(zip(rows.column("id").to_pylist(), taken.tolist(), strict=True))
            assert found == [(i, number) for i, number, _ in wanted if number < value]
            wanted = [row for row in wanted if row[1] >= value]
        elif what == "retain":
            buffer.retain(np.array([row[0] % value == 0 for row in wanted], np.bool_))
            wanted = [row for row in wanted if row[0] % value == 0]
        elif what == "all":
            assert buffer.all()[0].column("id").to_pylist() == [row[0] for row in wanted]
        elif what == "clean":
            buffer.clean()
            wanted = [(i, number, False) for i, number, _ in wanted]
        else:
            found = buffer.dump(changed=value).column("row_id").to_pylist()
            assert found == [i for i, _, new in wanted if new or not value]
        assert len(buffer) == len(wanted)
