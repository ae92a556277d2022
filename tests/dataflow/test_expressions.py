import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import AppError, col, lit, when
from dataflow.errors import NOWHERE
from dataflow.expressions import Projection, _kernel, columns_of, is_elementwise, split_aggregate

SCHEMA = pa.schema([("i", pa.int64()), ("j", pa.int32()), ("f", pa.float64()), ("s", pa.string())])
rows = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1]),
            "j": st.none() | st.integers(-5, 5),
            "f": st.none() | st.sampled_from([-1.5, 0.0, -0.0, 2.0, float("nan"), float("inf")]),
            "s": st.none() | st.sampled_from(["", "a", "b"]),
        }
    ),
    max_size=12,
)
compare = st.sampled_from(["__gt__", "__ge__", "__lt__", "__le__", "__eq__", "__ne__"])
leaf = st.one_of(
    st.tuples(st.sampled_from(["i", "j"]), compare, st.integers(-3, 3)),
    st.tuples(st.just("f"), compare, st.sampled_from([0, 2.0, -1.5, 1])),
    st.tuples(st.just("s"), compare, st.sampled_from(["", "a", "c"])),
).map(lambda part: getattr(col(part[0]), part[1])(part[2]))
whole = st.tuples(st.sampled_from(["__add__", "__sub__", "__mul__", "__mod__", "__floordiv__"]), st.integers(1, 7))
real = st.tuples(st.sampled_from(["__add__", "__sub__", "__mul__"]), st.sampled_from([0.908, -1.5, 2, 0]))


@st.composite
def arithmetic(draw):
    """Whole steps on the int64 column, then perhaps real ones on that or another."""
    expr = col("i")
    for name, by in draw(st.lists(whole, max_size=3)):
        expr = getattr(expr, name)(by)
    expr = draw(st.sampled_from([expr, col("j"), col("f")]))
    for name, by in draw(st.lists(real, max_size=2)):
        expr = getattr(expr, name)(by)
    return expr


predicate = st.recursive(
    leaf, lambda inner: st.builds(lambda a, b, o: a & b if o else a | b, inner, inner, st.booleans())
)


@given(rows, predicate | arithmetic() | arithmetic().map(lambda number: (number > 1) & (col("s") == "a")))
@settings(max_examples=250, deadline=None)
def test_our_kernels_give_what_narwhals_gives(data, expr):
    batch = pa.RecordBatch.from_pylist(data, schema=SCHEMA)
    kernel = _kernel(expr, SCHEMA)
    assert kernel is not None
    frame = nw.from_native(pa.Table.from_batches([batch])).lazy()
    assert told(lambda: kernel(batch)) == told(lambda: frame.select(x=expr).collect().to_native().column("x"))


def told(evaluate):
    """Type and values, or that Arrow refuses: an integer that no float can hold is refused by both."""
    try:
        found = evaluate()
    except pa.ArrowInvalid:
        return "refused"
    return found.type, repr(found.to_pylist())


def test_what_an_expression_names_and_whether_it_is_elementwise():
    expr = when(col("a") > col("b")).then(col("c") + 1).otherwise(lit(0))
    assert set(columns_of(expr)) == {"a", "b", "c"}
    assert is_elementwise(expr)
    assert not is_elementwise(col("a") - col("a").mean())
    assert not is_elementwise(col("a").shift(1))


def test_aggregates_are_taken_apart():
    shape = split_aggregate((col("a") * 2).max().alias("x"))
    assert shape is not None and shape[0] is not None
    assert shape[1] == "max" and list(columns_of(shape[0])) == ["a"]
    assert split_aggregate(col("a") + col("b")) is None


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (col("q") > 1, 'here: no column "q"'),
        (col("ii") > 1, 'did you mean "i"'),
        (col("s") > 1, "does not fit its columns"),
        (col("i").max(), "more than one row"),
        (col("i").cum_sum(), "more than one row"),
    ],
)
def test_what_cannot_run_is_refused_before_rows_flow(expr, message):
    with pytest.raises(AppError, match=message):
        Projection(SCHEMA, {"x": expr}, operator="here", place=NOWHERE)


def test_results_are_cast_to_the_derived_type():
    projection = Projection(SCHEMA, {"x": col("j") * 2, "y": lit(3)}, operator="here", place=NOWHERE)
    made = projection.run(pa.RecordBatch.from_pylist([{"j": 1}, {"j": None}], schema=SCHEMA))
    assert made["x"].type == projection.types["x"] and made["y"].to_pylist() == [3, 3]
