from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow import App
from dataflow.batches import Row
from tests.dataflow.cutting import cut_places, cuts, run_cut

rows_strategy = st.lists(st.fixed_dictionaries({"k": st.integers(0, 5), "at": st.integers(0, 60)}), max_size=50)


@given(rows_strategy, cut_places)
@settings(max_examples=60, deadline=None)
def test_the_first_row_of_each_key_and_stretch(rows, places):
    rows = sorted(rows, key=lambda row: row["at"])

    def build(app: App) -> None:
        source = app.source("in", schema={"k": "int64", "at": "int64"}, event_time="at")
        source.key_by("k").distinct(within="10ms").sink("some")
        source.key_by("k").distinct().sink("once")

    once: dict[int, Row] = {}
    given_at: dict[int, int] = {}
    some: list[Row] = []
    for row in rows:
        once.setdefault(row["k"], row)
        if row["k"] not in given_at or row["at"] >= given_at[row["k"]] + 10:
            given_at[row["k"]] = row["at"]
            some.append(row)
    out = run_cut(build, [("in", part) for part in cuts(rows, places)])
    assert out["once"] == list(once.values())
    assert out["some"] == some
