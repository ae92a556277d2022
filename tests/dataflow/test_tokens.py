from dataflow import App, count, tumbling
from dataflow.batches import from_rows
from dataflow.engine.executor import Executor
from dataflow.messages import Data, End, Token
from dataflow.plan import make_plan
from dataflow.state.snapshot import Stateful


def test_a_snapshot_at_a_token_holds_exactly_what_came_before_it():
    app = App("t")
    schema = {"k": "string", "at": "timestamp[s]"}
    a, b = (app.source(name, schema=schema, event_time="at", lateness="1h") for name in "ab")
    a.union(b).key_by("k").window(tumbling("1h")).aggregate(n=count()).sink("out")
    plan = make_plan(app.graph)
    saved = {}

    def save(stage, instance, epoch):
        if isinstance(instance.operator, Stateful):
            saved[stage] = instance.operator.snapshot_base()

    def rows(count):
        return Data(from_rows([{"k": "x", "at": 1}] * count, a.schema))

    executor = Executor(plan, on_epoch=save)
    executor.feed("a", rows(1))
    executor.feed("a", Token(1))
    executor.feed("a", rows(10))  # behind the token: not in the snapshot
    executor.feed("b", rows(100))
    executor.feed("b", Token(1))
    again = Executor(plan)
    for stage, base in saved.items():
        again.instances[stage].operator.restore(base)
    arrivals = [*again.feed("a", End()), *again.feed("b", End())]
    assert [m.batch.to_pylist()[0]["n"] for _, m in arrivals if isinstance(m, Data)] == [101]
    arrivals = [*executor.feed("a", End()), *executor.feed("b", End())]
    assert [m.batch.to_pylist()[0]["n"] for _, m in arrivals if isinstance(m, Data)] == [111]
