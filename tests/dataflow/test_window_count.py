from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App, col, count, count_window
from tests.dataflow.cutting import cut_places, cuts, run_cut

rows_strategy = st.lists(st.fixed_dictionaries({"k": st.integers(0, 4), "x": st.integers(0, 99)}), max_size=60)


@given(rows_strategy, cut_places, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_every_n_rows_of_a_key_in_the_order_they_fill(rows, places, n):
    def build(app: App) -> None:
        source = app.source("in", schema={"k": "int64", "x": "int64"})
        source.key_by("k").window(count_window(n)).aggregate(n=count(), total=col("x").sum()).sink("out")

    expected, open_windows = [], defaultdict(list)
    for row in rows:
        open_windows[row["k"]].append(row["x"])
        if len(open_windows[row["k"]]) == n:
            expected.append({"k": row["k"], "n": n, "total": sum(open_windows.pop(row["k"]))})
    assert run_cut(build, [("in", part) for part in cuts(rows, places)])["out"] == expected
