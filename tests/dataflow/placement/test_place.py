"""Every instance has one place, on a peer that lives and has room; and somebody can say why."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dataflow import App, col, count, tumbling
from dataflow.hosting.assignment import InstanceId
from dataflow.placement.candidates import Candidate, DoesNotFit
from dataflow.placement.place import place, with_source, without_source
from dataflow.placement.shape import Kind, Shape, SinkShape, StageShape, shape_of
from dataflow.placement.tree import Route, parents, trunk
from dataflow.plan import make_plan
from overlay.ids import Key, PeerId
from tests.dataflow.placement.rings import candidates_of, cases


def placed(case):
    try:
        return place("app", case.shape, case.routes, case.candidates)
    except DoesNotFit:
        assume(False)
        raise


@given(cases())
def test_every_instance_is_placed_once_on_a_known_life_of_a_peer_and_has_a_reason(case):
    placement = placed(case)
    boots = {it.peer: it.boot_ms for it in case.candidates}
    assignment = placement.assignment
    assert all(boots[it.peer] == it.boot_ms for it in assignment.places)
    assert list(placement.reasons) == [it.instance for it in assignment.places]
    for at, stage in enumerate(case.shape.stages):
        assert [it.index for it in assignment.copies(at)] == list(range(len(assignment.copies(at))))
        if stage.kind is Kind.KEYED or stage.parallelism > 1:
            assert len(assignment.copies(at)) == stage.parallelism
        assert assignment.copies(at)
    assert {it.instance.stage for it in assignment.places if it.instance.is_sink} == {
        -1 - k for k in range(len(case.shape.sinks))
    }


@given(cases())
def test_no_peer_hosts_more_than_it_has_room_for(case):
    hosted = Counter(it.peer for it in placed(case).assignment.places)
    for candidate in case.candidates:
        assert hosted[candidate.peer] <= max(0, candidate.slots - candidate.slots_used)


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_routes_and_candidates_does_not_matter(case, rng):
    def attempt(routes, candidates):
        try:
            return place("app", case.shape, routes, candidates)
        except DoesNotFit as error:
            return str(error)

    routes, candidates = list(case.routes), list(case.candidates)
    first = attempt(routes, candidates)
    rng.shuffle(routes)
    rng.shuffle(candidates)
    assert attempt(routes, candidates) == first


@given(cases())
def test_sources_are_where_they_are_offered_and_pinned_sinks_where_they_must_be(case):
    assignment = placed(case).assignment
    for at, stage in enumerate(case.shape.stages):
        if stage.kind is Kind.SOURCE:
            offered = sorted({it.origin for it in case.routes if it.source == stage.name})
            assert [assignment.peer_of(it) for it in assignment.copies(at)] == offered
    for k, sink in enumerate(case.shape.sinks):
        if sink.pin is not None:
            assert assignment.peer_of(InstanceId(-1 - k, 0)) == sink.pin


@given(cases())
def test_a_ring_without_a_free_slot_is_told_to_be_full_and_by_whom(case):
    full = [Candidate(it.peer, slots=2, slots_used=2, leaves=it.leaves) for it in case.candidates]
    with pytest.raises(DoesNotFit, match=r"peer [0-9a-f]{8} lacks a slot \(2 of 2 are in use\)"):
        place("app", case.shape, case.routes, full)


@given(cases())
def test_an_app_that_fits_into_an_empty_ring_with_room_for_all_is_never_refused(case):
    roomy = [Candidate(it.peer, slots=100, leaves=it.leaves) for it in case.candidates]
    assert place("app", case.shape, case.routes, roomy).assignment.places


@given(cases(), st.data())
def test_a_source_that_joins_later_or_goes_moves_nothing_else(case, data):
    before = placed(case).assignment
    fed = {it.peer for it in before.places if it.instance.stage == 0}
    roomy = [Candidate(it.peer, boot_ms=it.boot_ms, slots=100) for it in case.candidates]
    others = [it.peer for it in case.candidates if it.peer not in fed]
    assume(others)
    newcomer = data.draw(st.sampled_from(others))
    after = with_source(before, case.shape, Route("source-0", "sink-0", (newcomer,)), roomy).assignment
    assert after.generation == before.generation + 1
    new = set(after.places) - set(before.places)
    assert set(before.places) < set(after.places)
    assert [it.peer for it in new] == [newcomer]

    again = without_source(after, case.shape, newcomer)
    assert again.generation == after.generation + 1
    sources = {at for at, stage in enumerate(case.shape.stages) if stage.kind is Kind.SOURCE}
    assert {it for it in again.places if it.instance.stage not in sources} == {
        it for it in before.places if it.instance.stage not in sources
    }


def peers_of(*ids):
    return [PeerId(Key(it)) for it in ids]


A, B, P, Q, M, R = peers_of(0xA0 << 152, 0xB0 << 152, 0x40 << 152, 0x50 << 152, 0x10 << 152, 0x01 << 152)
TWO_WAYS = [Route("readings", "alerts", (A, P, M, R)), Route("readings", "alerts", (B, Q, M, R))]
CHAIN = Shape(
    (
        StageShape(Kind.SOURCE, "readings"),
        StageShape(Kind.STATELESS, "filter", (0,)),
        StageShape(Kind.KEYED, "aggregate", (1,)),
    ),
    (SinkShape("alerts", 2),),
)


def test_filters_stay_near_their_sources_and_keys_meet_at_the_rendezvous():
    alone = [Candidate(it, slots=9) for it in (A, B, P, Q, M, R)]
    assignment = place("app", CHAIN, TWO_WAYS, alone).assignment
    assert [assignment.peer_of(it) for it in assignment.copies(1)] == [P, Q]
    assert assignment.peer_of(InstanceId(2, 0)) == R
    assert assignment.peer_of(InstanceId(-1, 0)) == R


def test_an_unpinned_operator_goes_to_the_least_loaded_leaf_of_its_path_node():
    around = candidates_of((A, B, P, Q, M, R), leaves=5, slots=lambda it: 4, used=lambda it: 0 if it == Q else 2)
    placement = place("app", CHAIN, TWO_WAYS[:1], around)
    assert placement.assignment.peer_of(InstanceId(1, 0)) == Q
    assert "load 0.00, the least of" in placement.reasons[InstanceId(1, 0)]


def test_a_dead_hop_is_passed_over():
    alone = [Candidate(it, slots=9) for it in (A, B, P, Q, M)]
    assert place("app", CHAIN, TWO_WAYS, alone).assignment.peer_of(InstanceId(2, 0)) == M


def test_a_complaint_says_which_peer_lacks_how_much_memory():
    hungry = Shape(
        (StageShape(Kind.SOURCE, "readings"), StageShape(Kind.KEYED, "join", (0,), memory_mib=512)),
        (SinkShape("alerts", 1),),
    )
    small = [Candidate(it, slots=9, memory_free_mib=100) for it in (A, P, M, R)]
    with pytest.raises(DoesNotFit, match=r"stage 1 \(join\).*lacks memory \(512 MiB are needed, 100 MiB are left\)"):
        place("app", hungry, TWO_WAYS[:1], small)


def test_a_source_that_nobody_offers_is_named():
    with pytest.raises(DoesNotFit, match='No peer offers source "readings"'):
        place("app", CHAIN, [], [Candidate(A)])


def test_the_tree_links_routes_backwards():
    assert trunk(TWO_WAYS) == (M, R)
    assert parents(TWO_WAYS) == {A: (P,), B: (Q,), P: (M,), Q: (M,), M: (R,)}


def test_the_shape_of_a_plan_tells_keyed_stages_from_stateless_ones():
    app = App("rooms")
    readings = app.source("readings", schema={"room": "string", "at": "timestamp[ms]"}, event_time="at")
    readings.filter(col("room") != "x").key_by("room").window(tumbling("10s")).aggregate(n=count()).sink("out")
    shape = shape_of(make_plan(app.graph), pins={"out": A}, copies={2: 3})
    assert [it.kind for it in shape.stages] == [Kind.SOURCE, Kind.STATELESS, Kind.KEYED]
    assert [it.parallelism for it in shape.stages] == [1, 1, 3]
    assert shape.sinks == (SinkShape("out", 2, A),)
    assert shape.stages[0].name == "readings"
