"""Equal results are called equal, and different ones are told apart."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.digest import difference, digest_of

COLUMNS = ("key", "mean", "word")
ROWS = st.lists(
    st.tuples(st.integers(-(2**40), 2**40), st.integers(-1000, 1000).map(lambda it: it / 8), st.text(max_size=5)),
    min_size=1,
    max_size=20,
)


def table(rows):
    key, mean, word = zip(*rows, strict=True)
    return pa.table({"key": pa.array(key, pa.int64()), "mean": pa.array(mean, pa.float64()), "word": pa.array(word)})


@given(ROWS, st.randoms())
def test_the_order_of_rows_does_not_matter(rows, rng):
    shuffled = list(rows)
    rng.shuffle(shuffled)
    assert digest_of(table(rows), COLUMNS) == digest_of(table(shuffled), COLUMNS)
    assert difference(table(rows), table(shuffled), COLUMNS) is None


@given(ROWS)
def test_a_row_twice_is_not_a_row_once(rows):
    assert digest_of(table(rows), COLUMNS) != digest_of(table([*rows, rows[0]]), COLUMNS)


@given(ROWS)
def test_one_changed_value_changes_the_digest(rows):
    (key, mean, word), *rest = rows
    for changed in ((key + 1, mean, word), (key, mean + 0.125, word), (key, mean, word + "x")):
        assert digest_of(table(rows), COLUMNS) != digest_of(table([changed, *rest]), COLUMNS)


def test_floats_are_equal_to_nine_digits_and_no_further():
    def mean_is(value):
        return digest_of(pa.table({"mean": [value]}), ["mean"])

    assert mean_is(0.1 + 0.2) == mean_is(0.3)
    assert mean_is(123456789.01) == mean_is(123456789.02)
    assert mean_is(1.0000001) != mean_is(1.0000002)
    assert mean_is(0.0) == mean_is(-0.0)


def test_types_of_engines_do_not_matter():
    theirs = pa.table(
        {
            "at": pa.array([1_600_000_000_000], pa.timestamp("ms", tz="UTC")),
            "n": pa.array([7], pa.int32()),
            "word": pa.array(["oar"], pa.large_string()).dictionary_encode(),
        }
    )
    ours = pa.table({"at": [1_600_000_000_000_000], "n": [7], "word": ["oar"]})
    assert digest_of(theirs, ["at", "n", "word"]) == digest_of(ours, ["at", "n", "word"])


def test_a_difference_is_told_with_rows():
    told = difference(pa.table({"n": [1, 2]}), pa.table({"n": [1, 3, 4]}), ["n"])
    assert told == "2 rows instead of 3 (n); not wanted: (2,); missing: (3,) (4,)"


@pytest.mark.parametrize("text", [("ab", "c"), ("a", "bc")])
def test_text_is_not_only_its_letters_in_a_row(text):
    other = ("abc", "")
    assert digest_of(pa.table({"word": text}), ["word"]) != digest_of(pa.table({"word": other}), ["word"])
