"""An app is stopped at a token and goes on from the snapshots of its instances: the rows are those of one run."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataflow import App, col, count, tumbling
from dataflow.batches import from_rows
from dataflow.engine.workers import with_workers
from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.effects import Arrived
from dataflow.hosting.task import FINAL
from dataflow.loading import load_app
from dataflow.messages import Data, End, Idle, Token
from dataflow.plan import make_plan
from dataflow.state.chain import SnapshotChain, Taken
from tests.dataflow.cutting import bag
from tests.dataflow.hosting.world import World, spread_over
from tests.dataflow.test_snapshots import EVERY, source

END, QUIET = "end", "quiet"


def union(app: App) -> None:
    both = source(app).union(source(app, "other"))
    both.key_by("k").window(tumbling("10s")).aggregate(n=count(), m=col("x").last()).sink("out")


def late_rows(app: App) -> None:
    made = source(app).union(source(app, "other")).key_by("k").window(tumbling("10s")).aggregate(n=count())
    made.sink("out")
    made.late().sink("late")


def stateless(app: App) -> None:
    source(app).filter(col("x") > 0).with_columns(y=col("x") * 2).sink("out")


APPS = [*EVERY, union, late_rows, stateless]


class Recorded(World):
    """A world that snapshots every instance at every token, and knows what a sink had when a token came."""

    def __init__(self, plan, assignment, *, generation, chains=None, **options: Any) -> None:
        self.taken: dict[int, dict[InstanceId, Taken]] = defaultdict(dict)
        self.committed: dict[int, dict[str, int]] = defaultdict(dict)
        self.generation = generation
        self.chains: dict[InstanceId, SnapshotChain] = chains if chains is not None else {}
        super().__init__(plan, assignment, on_epoch=self.on_epoch, **options)
        for share in self.shares.values():
            for id_ in assignment.on(share.me):
                self.chains[id_] = SnapshotChain(share.instance(id_))

    def on_epoch(self, id_, instance, epoch):
        if epoch == FINAL:
            return  # `token` takes what has ended
        self.taken[epoch][id_] = self.chains[id_].take(self.generation, epoch)

    def do(self, peer, effects):
        for effect in effects or ():
            super().do(peer, [effect])
            if isinstance(effect, Arrived) and isinstance(effect.message, Token):
                self.committed[effect.message.epoch][effect.sink] = len(self.rows[effect.sink])

    def token(self, epoch, names, between=lambda name: None):
        """Let these sources end an epoch; instances that have ended are as they were at the end."""
        for name in names:
            self.feed(name, Token(epoch))
            self.run()
            between(name)
        self.run()
        for id_, chain in self.chains.items():
            if id_ not in self.taken[epoch]:
                assert self.shares[self.assignment.peer_of(id_)].instance(id_).ended
                self.taken[epoch][id_] = chain.take(self.generation, epoch)
        for name in self.plan.sinks:
            self.committed[epoch].setdefault(name, len(self.rows[name]))


class Story:
    """Feeds sources by a script; may stop at an epoch, and go on in new shares from its snapshots."""

    def __init__(self, build, *, hosts=2, copies=None, seed=0):
        self.app = App("law")
        build(self.app)
        self.app.validate()
        self.plan = make_plan(self.app.graph)
        self.schemas = {node.name: node.draft.outputs[0].schema for node in self.app.graph.of_kind("source")}
        self.assignment = spread_over(self.plan, lambda id_: (id_.stage + id_.index) % hosts, copies=copies)
        self.world = Recorded(self.plan, self.assignment, generation=1, seed=seed)
        self.stored: dict[Any, bytes] = {}
        self.ended: set[str] = set()
        self.epoch = 0
        self.kept: dict[str, list[Any]] = {name: [] for name in self.plan.sinks}

    def play(self, steps):
        for name, what in steps:
            if name not in self.schemas or name in self.ended:
                continue
            if what == END:
                self.ended.add(name)
                self.world.feed(name, End())
            elif what == QUIET:
                self.world.feed(name, Idle())
            else:
                wanted = self.schemas[name].names
                rows = [{column: each.get(column, each["x"]) for column in wanted} for each in what]
                self.world.feed(name, Data(from_rows(rows, self.schemas[name])))
            self.world.run()  # so that who comes first is the same in every run

    def token(self, eager=()):
        """`eager`: what the first source says behind its token, while the others have not come so far."""
        self.epoch += 1
        names = [name for name in sorted(self.schemas) if name not in self.ended]
        self.world.token(self.epoch, names, lambda name: self.play([it for it in eager if name == names[0] == it[0]]))
        for id_, taken in self.world.taken[self.epoch].items():
            self.stored[id_, taken.name] = taken.encode()

    def stop_and_go_on(self):
        """The processes are gone; what is left are parts and what sinks had at the token."""
        old = self.world
        for name, rows in self.kept.items():
            rows += old.rows[name][: old.committed[self.epoch][name]]
        self.world = Recorded(self.plan, self.assignment, generation=old.generation + 1, seed=old.generation)
        for id_, chain in self.world.chains.items():
            needs = old.taken[self.epoch][id_].needs
            chain.restore(needs, [self.stored[id_, name] for name in needs])

    def finish(self):
        for name in sorted(self.schemas.keys() - self.ended):
            self.world.feed(name, End())
        self.world.run()
        assert not self.world.failed, self.world.failed
        assert all(share.ended for share in self.world.shares.values())
        return {name: [*rows, *self.world.rows[name]] for name, rows in self.kept.items()}


row = st.fixed_dictionaries(
    {"k": st.sampled_from(["a", "bb", "ccc", None]), "x": st.integers(0, 3), "at": st.integers(-20, 60)}
)
what = st.one_of(*[st.lists(row, min_size=1, max_size=6)] * 4, st.just(QUIET), st.just(END))
steps = st.lists(st.tuples(st.sampled_from(["in", "other"]), what), max_size=5)


@pytest.mark.parametrize("build", APPS, ids=lambda build: build.__name__)
@given(
    lives=st.lists(st.tuples(steps, steps, st.booleans()), min_size=1, max_size=3), small=st.sampled_from([0, 1 << 16])
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_app_that_stops_at_a_token_goes_on_as_if_it_had_not(monkeypatch, build, lives, small):
    """In each life: rows, a token, and rows behind it that a stop forgets, so they are fed again."""
    monkeypatch.setattr("dataflow.state.chain.SMALL_BYTES", small)  # zero: deltas however small
    stopped, steady = Story(build), Story(build)
    for before, behind, does_stop in lives:
        stopped.play(before)
        steady.play(before)
        ended = set(stopped.ended)
        if does_stop:
            stopped.token(eager=behind)
            stopped.play(behind)
            stopped.stop_and_go_on()
            stopped.ended = ended
        else:
            stopped.token()
        steady.token()
        stopped.play(behind)
        steady.play(behind)
    out, expected = stopped.finish(), steady.finish()
    for name, rows in expected.items():
        assert bag(out[name]) == bag(rows), name


def rows(*times, k="a"):
    return [{"k": k, "x": 1, "at": at} for at in times]


def counted(story):
    return [(row["window_start"].second, row["n"]) for row in story.finish()["out"]]


def test_a_source_that_was_idle_at_the_token_holds_nobody_up_after_it():
    story = Story(union)
    story.play([("in", rows(1, 2)), ("other", QUIET)])
    story.token()
    story.stop_and_go_on()
    story.play([("in", rows(3, 30))])
    story.world.run()
    assert [row["n"] for row in story.world.rows["out"]] == [3]  # without a word of the other source
    assert counted(story) == [(0, 3), (30, 1)]


def test_a_source_that_had_ended_is_not_waited_for_and_may_say_so_again():
    story = Story(union)
    story.play([("in", rows(1, 2)), ("other", rows(4)), ("other", END)])
    story.token()
    story.stop_and_go_on()
    story.world.feed("other", End())  # its log says so once more
    story.play([("in", rows(3))])
    story.token()
    assert counted(story) == [(0, 4)]
    assert len(story.world.marks["out"]) == len(set(map(repr, story.world.marks["out"])))


def test_an_epoch_that_was_never_committed_is_still_covered_by_the_next(monkeypatch):
    monkeypatch.setattr("dataflow.state.chain.SMALL_BYTES", 0)
    story = Story(union)
    for second in range(5):  # only the last is committed
        story.play([("in", rows(second)), ("other", rows(second, k="b"))])
        story.token()
    needs = {len(taken.needs) for taken in story.world.taken[5].values()}
    assert max(needs) > 1, "deltas are what this is about"
    story.stop_and_go_on()
    assert sorted(counted(story)) == [(0, 5), (0, 5)]


def test_copies_of_a_keyed_stage_and_their_several_channels_are_restored():
    built = make_plan_of(union)
    keyed = next(stage.id for stage in built.stages if stage.nodes[0].kind == "aggregate")
    story = Story(union, hosts=3, copies={keyed: 3}, seed=4)
    for at in range(8):
        story.play([("in", rows(at, at + 4, k=f"k{at}")), ("other", rows(at + 2, k=f"k{at}"))])
        if at % 3 == 2:
            story.token()
            story.stop_and_go_on()
    assert sum(n for _, n in counted(story)) == 24


def make_plan_of(build):
    app = App("law")
    build(app)
    return make_plan(app.graph)


def test_rows_through_worker_processes_are_worked_on_by_new_ones_after_a_restore(tmp_path):
    file = tmp_path / "app.py"
    file.write_text(
        "from dataflow import App, count, tumbling\n"
        "def double(row):\n    return {**row, 'x': row['x'] * 2}\n"
        "app = App('workers')\n"
        "rows = app.source('in', schema={'k': 'string', 'x': 'int64', 'at': 'timestamp[s]'}, event_time='at')\n"
        "from dataflow import col\n"
        "rows.map(double, parallelism=2).key_by('k').window(tumbling('10s')).aggregate(t=col('x').sum()).sink('out')\n"
    )
    plan = make_plan(load_app(file).graph)
    schema = plan.stages[plan.sources["in"]].nodes[0].draft.outputs[0].schema
    assignment = spread_over(plan, lambda id_: 0)
    made, made_again = with_workers(str(file), {}), with_workers(str(file), {})
    try:
        first = Recorded(plan, assignment, generation=1, make=made[0])
        first.feed("in", Data(from_rows(rows(*[1] * 700), schema)))
        first.token(1, ["in"])
        parts = {id_: taken.encode() for id_, taken in first.taken[1].items()}
        second = Recorded(plan, assignment, generation=2, make=made_again[0])
        for id_, chain in second.chains.items():
            chain.restore(first.taken[1][id_].needs, [parts[id_]])
        second.feed("in", Data(from_rows(rows(*[2] * 600), schema)))
        assert [row["t"] for row in second.end()["out"]] == [2600]
        assert made[1] and made_again[1], "the map ran in processes"
    finally:
        for workers in (*made[1], *made_again[1]):
            workers.close()


def test_a_count_window_that_filled_twice_since_the_base_is_removed_once(monkeypatch):
    monkeypatch.setattr("dataflow.state.chain.SMALL_BYTES", 0)
    stopped = Story(next(build for build in EVERY if build.__name__ == "count_aggregate"))
    stopped.play([("in", [*rows(0, 0), *rows(0, 0, k="bb")])])
    stopped.token()
    stopped.play([("in", rows(0)), ("in", [*rows(0, 0, 0), *rows(0, k="bb")])])
    stopped.token()
    stopped.stop_and_go_on()
    stopped.play([("in", rows(0)), ("in", rows(0, 0, k="bb"))])
    assert sorted((row["k"], row["n"]) for row in stopped.finish()["out"]) == [("a", 3), ("a", 3), ("bb", 3)]
