"""When rows came in, and what is under way: seen from the sink, over a wire that repeats and reorders."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataflow import App, col, count, tumbling
from dataflow.hosting.effects import Arrived
from dataflow.hosting.stamps import age_ms, oldest, stamp_of
from dataflow.hosting.tally import UnderWay
from dataflow.messages import Data, End, Watermark
from dataflow.plan import make_plan
from tests.dataflow.hosting.world import World, spread_over

MONTH_MS = 1 << 31
moments = st.integers(min_value=0, max_value=1 << 42)


@given(moments, st.integers(min_value=0, max_value=MONTH_MS - 2))
def test_an_age_is_the_time_since_the_stamp_whenever_that_was(then_ms, later_ms):
    # A stamp that would be 0 is 1 instead: one millisecond is all that is ever lost.
    assert 0 <= later_ms - age_ms(stamp_of(then_ms), then_ms + later_ms) <= 1


@given(moments, st.lists(st.integers(min_value=2, max_value=MONTH_MS - 1), min_size=1, max_size=8))
def test_the_oldest_of_stamps_is_that_of_the_earliest_moment(start_ms, offsets):
    stamps = [stamp_of(start_ms + it) for it in offsets]
    assert age_ms(oldest(stamps), start_ms + min(offsets)) <= 1


class Noting(World):
    """A world that also notes the stamps of what arrives."""

    def __init__(self, *args, **options) -> None:
        self.stamps: dict[str, list[int]] = {}
        super().__init__(*args, **options)

    def do(self, peer, effects):
        kept = list(effects or ())
        for it in kept:
            if isinstance(it, Arrived) and isinstance(it.message, Data):
                self.stamps.setdefault(it.sink, []).append(it.stamp)
        super().do(peer, kept)


def a_plan():
    app = App("ages")
    rows = app.source("rows", schema={"n": "int64", "at": "timestamp[us]"}, event_time="at", lateness="0s")
    rows.filter(col("n") >= 0).sink("all")
    rows.key_by("n").window(tumbling("10s")).aggregate(times=count()).sink("counts")
    return make_plan(app.graph)


def rows(*seconds):
    times = pa.array([it * 1_000_000 for it in seconds], pa.timestamp("us"))
    return Data(pa.RecordBatch.from_arrays([pa.array([1] * len(seconds)), times], names=["n", "at"]))


def feed(world, message, stamp):
    peer = world.assignment.peer_of(next(it.instance for it in world.assignment.places if it.instance.stage == 0))
    share = world.shares[peer]
    assert share.wants("rows")
    share.feed_source("rows", message, stamp=stamp)
    world.run()


def test_rows_bear_the_stamp_of_their_source_over_every_edge():
    """Every instance on a host of its own; a window's result bears the stamp of what closed it."""
    plan = a_plan()
    world = Noting(plan, spread_over(plan, lambda it: it.stage + 4), seed=3)
    world.run()
    feed(world, rows(1, 2), 100)
    feed(world, rows(15), 200)
    feed(world, Watermark(15_000_000), 300)
    assert world.stamps["all"] == [100, 200]
    assert world.stamps["counts"] and set(world.stamps["counts"]) <= {200, 300}


def under_way(world):
    total = UnderWay(0, 0, 0)
    for share in world.shares.values():
        total += share.under_way()
    return total


@given(st.integers(min_value=0, max_value=10_000))
def test_an_app_is_not_at_rest_while_anything_is_under_way(seed):
    """Frames on the wire, queues, busy instances: whatever moves next, the counts say that it is not over."""
    plan = a_plan()
    world = World(plan, spread_over(plan, lambda it: it.stage + 4), seed=seed, faults=False)
    world.run()
    for second in (1, 2, 15, 31):
        world.feed("rows", rows(second))
    world.feed("rows", End())
    while True:
        before = len(world.rows["all"]) + len(world.rows["counts"])
        is_at_rest = under_way(world).is_at_rest
        if not world.once():
            assert is_at_rest, "nothing moves any more"
            return
        world_rows = len(world.rows["all"]) + len(world.rows["counts"])
        assert not (is_at_rest and world_rows > before), "a row came to a sink of an app at rest"


def test_what_instances_take_and_give_is_counted():
    plan = a_plan()
    world = World(plan, spread_over(plan, lambda it: it.stage + 4), seed=1)
    world.run()
    world.feed("rows", rows(1, 2, 15))
    world.end()
    tallies = [share.tally for share in world.shares.values()]
    taken = {str(it): count for tally in tallies for it, count in tally.rows_in.items()}
    given_ = {str(it): count for tally in tallies for it, count in tally.rows_out.items()}
    assert taken["0.0"] == 3 and taken["sink 0"] == 3 and taken["sink 1"] == 2
    assert given_["0.0"] == 6, "each row goes to two readers"
    assert all(tally.bytes_in.total() > 0 for tally in tallies)


def test_edges_tell_their_credit():
    plan = a_plan()
    world = World(plan, spread_over(plan, lambda it: it.stage + 4), seed=1, faults=False)
    world.run()
    edges = [edge for share in world.shares.values() for edge in share.edges()]
    assert edges and all(edge.credit_messages == 16 and edge.under_way_messages == 0 for edge in edges)
