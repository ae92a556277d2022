"""Rows and state of a key go to the same instance, and instances together give what one would."""

from dataflow import App, count, tumbling
from dataflow.batches import from_rows
from dataflow.messages import Data
from dataflow.partition import partition
from dataflow.state.snapshot import even_ranges
from tests.dataflow.cutting import Session, bag

ROWS = [{"k": f"k{n % 50}", "at": n // 10} for n in range(1000)]


def build(app: App) -> None:
    rows = app.source("in", schema={"k": "string", "at": "timestamp[s]"}, event_time="at")
    rows.key_by("k").window(tumbling("20s")).aggregate(n=count()).sink("out")


def test_an_app_is_split_in_the_middle_and_its_halves_go_on():
    one = Session(build)
    one.feed("in", ROWS)
    ranges = even_ranges(3)
    first = Session(build)
    first.feed("in", ROWS[:437])
    halves = [Session(build) for _ in ranges]
    for half, each in zip(halves, ranges, strict=True):
        for operator, old in zip(half.stateful(), first.stateful(), strict=True):
            operator.merge([old.split(each)])
    parts = partition(from_rows(ROWS[437:], first.schemas["in"]), ["k"], ranges)
    for half, part in zip(halves, parts, strict=True):
        half._take(half.executor.feed("in", Data(part)))
    out = first.out["out"] + [row for half in halves for row in half.end()["out"]]
    assert bag(out) == bag(one.end()["out"])
