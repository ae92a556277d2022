"""A chain of snapshots: what each epoch costs, and what its restore needs."""

import pytest

from dataflow import AppError
from dataflow.engine.instance import Instance
from dataflow.operators.union import Union
from dataflow.state import chain as chains
from dataflow.state.chain import PartName, SnapshotChain
from tests.dataflow.cutting import Session
from tests.dataflow.test_snapshots import contents, distinct_for_ever, tumbling_aggregate

KEYS = 4000


def keyed(build=distinct_for_ever):
    running = Session(build)
    instance = running.executor.instances[1]
    running.feed("in", [{"k": f"k{n}", "x": n, "at": 1} for n in range(KEYS)])
    return running, instance, SnapshotChain(instance)


def change(running, epoch, keys=40):
    running.feed("in", [{"k": f"new {epoch} {n}", "x": n, "at": 1} for n in range(keys)])


def test_an_epoch_costs_what_changed_and_names_all_it_needs():
    running, _, chain = keyed(tumbling_aggregate)
    base = chain.take(1, 1)
    change(running, 2)
    delta = chain.take(1, 2)
    assert base.is_base and not delta.is_base
    assert delta.needs == (PartName(1, 1), PartName(1, 2)) and delta.name == PartName(1, 2)
    assert delta.size_bytes < base.size_bytes / 50
    assert len(delta.encode()) < len(base.encode()) / 10


def test_deltas_that_outgrow_their_base_make_a_new_base(monkeypatch):
    monkeypatch.setattr(chains, "DELTAS_MAX", 1000)  # by their bytes, not by their number
    running, _, chain = keyed(tumbling_aggregate)
    bases, total, changed = [], 0, 0
    for epoch in range(1, 300):
        change(running, epoch)
        taken = chain.take(1, epoch)
        total += taken.size_bytes
        changed += 0 if taken.is_base else taken.size_bytes
        if taken.is_base:
            bases.append(epoch)
    assert bases[0] == 1 and 1 < len(bases) < 6
    assert total < 4 * changed  # the state trebles meanwhile, and each base holds all of it
    assert chain.needs[0] == (1, bases[-1]) and len(chain.needs) == 300 - bases[-1]


def test_too_many_deltas_make_a_new_base(monkeypatch):
    monkeypatch.setattr(chains, "DELTAS_MAX", 3)
    _, _, chain = keyed()
    assert [chain.take(1, epoch).is_base for epoch in range(1, 8)] == [True, *[False] * 3, True, False, False]


def test_a_part_that_could_not_be_stored_is_not_needed_any_more():
    running, _, chain = keyed()
    chain.take(1, 1)
    change(running, 2)
    chain.take(1, 2)
    chain.rebase()
    taken = chain.take(1, 3)
    assert taken.is_base and taken.needs == (PartName(1, 3),)


def test_a_restored_chain_goes_on_over_the_parts_it_was_restored_from():
    running, _, chain = keyed()
    stored = {}
    for epoch in (1, 2, 3):
        change(running, epoch)
        taken = chain.take(1, epoch)
        stored[taken.name] = taken.encode()
    change(running, 4)
    lost = chain.take(1, 4)  # of the old generation, never committed

    again, instance, _ = keyed()
    instance = Instance(running.fresh()[1], 1, 2)
    moved = SnapshotChain(instance)
    moved.restore(taken.needs, [stored[name] for name in taken.needs])
    again.executor.instances[1] = instance
    change(again, 5)
    more = moved.take(2, 4)
    stored[more.name] = more.encode()
    assert not more.is_base and more.name != lost.name
    assert more.needs == (*taken.needs, PartName(2, 4))
    last = running.fresh()[1]
    SnapshotChain(Instance(last, 1, 2)).restore(more.needs, [stored[name] for name in more.needs])
    assert contents([last]) == contents([again.stateful()[1]])


def test_what_was_taken_does_not_change_while_the_operator_goes_on():
    running, _, chain = keyed(tumbling_aggregate)
    taken = chain.take(1, 1)
    before = taken.encode()
    for epoch in range(5):
        running.feed("in", [{"k": f"k{n}", "x": 7, "at": 2} for n in range(KEYS)])
        change(running, epoch)
    assert taken.encode() == before


def test_an_operator_without_state_has_a_part_of_marks_alone():
    chain = SnapshotChain(Instance(Union(), 2, 1))
    first, second = chain.take(1, 1), chain.take(1, 2)
    assert first.snapshot is None and second.needs == (PartName(1, 2),)
    SnapshotChain(Instance(Union(), 2, 1)).restore(second.needs, [second.encode()])


def test_parts_that_do_not_belong_together_are_refused_in_a_sentence():
    running, _, chain = keyed()
    base = chain.take(1, 1).encode()
    change(running, 2)
    delta = chain.take(1, 2).encode()
    marks_only = SnapshotChain(Instance(Union(), 1, 1)).take(1, 1).encode()

    def restore(*parts):
        SnapshotChain(Instance(running.fresh()[1], 1, 2)).restore([PartName(1, 1)] * len(parts), parts)

    for parts, sentence in [
        ((), "not the parts of one snapshot"),
        ((b"\xc1",), "not the parts of a snapshot"),
        ((delta,), "part 1 of 1 is a delta"),
        ((base, base), "part 2 of 2 is a base"),
        ((marks_only,), "without state does not fit"),
    ]:
        with pytest.raises(AppError, match=sentence):
            restore(*parts)
