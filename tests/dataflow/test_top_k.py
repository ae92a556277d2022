from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, col, count, sliding, tumbling
from dataflow.testing import run_rows
from tests.dataflow.cutting import bag, cut_places, cuts, run_cut

SCHEMA = {"k": "string", "x": "int64", "at": "timestamp[s]"}
rows_strategy = st.lists(
    st.fixed_dictionaries({"k": st.sampled_from(["a", "b"]), "x": st.integers(0, 9), "at": st.integers(-30, 30)}),
    max_size=40,
)


@given(rows_strategy, cut_places, st.sampled_from([(10, 10), (20, 5)]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_first_k_of_each_key_and_window(rows, places, shape, descending):
    size, slide = shape

    def build(app: App) -> None:
        source = app.source("in", schema=SCHEMA, event_time="at", lateness="1000s")
        best = source.key_by("k").window(sliding(f"{size}s", every=f"{slide}s")).top_k(2, by="x", descending=descending)
        best.with_columns(begin=col("window_start").cast(__import__("narwhals").Int64)).select(
            "k", "x", "rank", "begin"
        ).sink("out")

    groups = defaultdict(list)
    for row in rows:
        start = row["at"] // slide * slide
        while start > row["at"] - size:
            groups[row["k"], start].append(row["x"])
            start -= slide
    expected = [
        {"k": k, "x": x, "rank": rank, "begin": start}
        for (k, start), xs in groups.items()
        for rank, x in enumerate(sorted(xs, reverse=descending)[:2], 1)
    ]
    assert bag(run_cut(build, [("in", part) for part in cuts(rows, places)])["out"]) == bag(expected)


def test_the_most_frequent_key_of_each_window():
    app = App("t")
    rows = app.source("in", schema=SCHEMA, event_time="at")
    counts = rows.key_by("k").window(tumbling("10s")).aggregate(n=count())
    counts.key_by().window(tumbling("10s")).top_k(1, by="n").select("k", "n").sink("out")
    data = [{"k": k, "x": 0, "at": at} for k, at in (("a", 0), ("b", 1), ("b", 2), ("a", 11))]
    assert run_rows(app, {"in": data})["out"] == [{"k": "b", "n": 2}, {"k": "a", "n": 1}]
