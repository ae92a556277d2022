"""A launch is all or nothing, whoever refuses, falls silent or answers in whatever order."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.deploying.launch import Abandoned, Ask, Found, Launch, Launched, LaunchRefused, Placed
from dataflow.deploying.requests import (
    Agreed,
    Begin,
    Declined,
    Halt,
    Host,
    Measure,
    Measured,
    Reserve,
    Room,
    Routed,
    SendJoin,
)
from dataflow.placement.ledger import Ledger, Need, Refused
from overlay.contact import Contact
from overlay.ids import Key, PeerId, key_of

PEERS = [PeerId(Key(n)) for n in range(5)]
CONTACTS = [Contact(peer, "127.0.0.1", 4000 + peer) for peer in PEERS]


def room(at):
    return Room(CONTACTS[at], 4, 0, 0.1)


@dataclass
class Ring:
    """Five peers that answer as told: each may decline or not answer one kind of question."""

    declines: dict[int, type] = field(default_factory=dict)
    silent: dict[int, type] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)
    heard: list[tuple[int, type]] = field(default_factory=list)
    is_founded: bool = True

    def answer(self, ask: Ask):
        at, request = int(ask.to.peer), ask.request
        self.heard.append((at, type(request)))
        if self.silent.get(at) is type(request):
            return None
        if self.declines.get(at) is type(request):
            return Declined(request.ask, "no room for 2 instances")
        match request:
            case SendJoin():
                return Routed(request.ask, (ask.to, CONTACTS[2], CONTACTS[4]))
            case Measure():
                return Measured(request.ask, (room(at), *(room(n) for n in range(5) if n != at)))
            case Reserve():
                self.held[at] = request.slots
            case Host():
                assert ask.charter == b"charter"
                assert at in self.held
                self.running.add(at)
            case Begin():
                assert set(self.held) == self.running, "somebody began before all were ready"
                self.begun.add(at)
            case Halt():
                self.held.pop(at, None)
                self.running.discard(at)
                self.begun.discard(at)
        return Agreed(request.ask)


def launch(**changes):
    def decide(routes, rooms, leaves):
        assert [int(it.contact.peer) for it in rooms] == [0, 1, 2, 3, 4]
        assert leaves[PEERS[2]] == {PEERS[0], PEERS[1], PEERS[3], PEERS[4]}
        return Placed(1, {PEERS[0]: 1, PEERS[2]: 2, PEERS[4]: 1}, b"charter")

    settings: dict[str, Any] = {
        "offers": {"readings": CONTACTS[:2]},
        "sinks": {"alerts": key_of("alerts")},
        "decide": decide,
    }
    return Launch("ab" * 32, "hot-rooms", **(settings | changes), first_ask=10)


def run(machine, ring, pick=lambda waiting: 0):
    """Carry out what the machine asks, in an order that `pick` chooses, until it says how it ended."""
    waiting = machine.begin()
    while True:
        if waiting and isinstance(waiting[0], Found):
            assert len(waiting) == 1, "a register is founded when nothing else is under way"
            assert set(ring.held) == ring.running and not ring.begun, "it is founded between ready and begun"
            waiting = machine.founded() if ring.is_founded else machine.unfounded("its register has no members")
            continue
        ends = [it for it in waiting if not isinstance(it, Ask)]
        if ends:
            assert len(waiting) == 1, "an end comes last, and alone"
            return ends[0]
        ask = waiting.pop(pick(waiting))
        reply = ring.answer(ask)
        number = ask.request.ask
        waiting += machine.unanswered(number, "timed out") if reply is None else machine.answered(number, reply)


def test_a_launch_that_all_agree_to_runs_on_every_host():
    ring = Ring()
    outcome = run(launch(), ring)
    assert isinstance(outcome, Launched) and outcome.placed.charter == b"charter"
    assert ring.begun == ring.running == {0, 2, 4}
    assert ring.held == {0: 1, 2: 2, 4: 1}


@pytest.mark.parametrize("kind", [Reserve, Host, Begin])
def test_one_refusal_lets_go_of_everything_and_is_told_in_its_own_words(kind):
    ring = Ring(declines={2: kind})
    outcome = run(launch(), ring)
    assert outcome == Abandoned("peer 00000000: no room for 2 instances", PEERS[2] if kind is Reserve else None)
    assert not ring.held and not ring.running and not ring.begun


def test_an_app_without_a_register_does_not_begin():
    ring = Ring(is_founded=False)
    assert run(launch(), ring) == Abandoned("its register has no members")
    assert not ring.held and not ring.running and not ring.begun


def test_a_placement_that_does_not_fit_asks_nobody_for_room():
    def decide(routes, rooms, leaves):
        raise LaunchRefused("peer 00000002 lacks a slot")

    ring = Ring()
    assert run(launch(decide=decide), ring) == Abandoned("peer 00000002 lacks a slot")
    assert not any(kind in (Reserve, Host, Begin, Halt) for _, kind in ring.heard)


def test_an_answer_of_the_wrong_kind_ends_the_launch_and_not_the_peer():
    machine = launch(offers={"readings": CONTACTS[:1]})
    (ask,) = machine.begin()
    (end,) = machine.answered(ask.request.ask, Agreed(ask.request.ask))
    assert end == Abandoned("a peer answered Agreed where Routed was due")


def test_an_answer_that_comes_twice_counts_once():
    machine = launch(offers={"readings": CONTACTS[:1]})
    (ask,) = machine.begin()
    reply = Ring().answer(ask)
    assert machine.answered(ask.request.ask, reply)
    assert machine.answered(ask.request.ask, reply) == []


@given(
    slots=st.lists(st.integers(1, 2), min_size=5, max_size=5),
    needs=st.lists(st.sets(st.integers(0, 4), min_size=2), min_size=2, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_of_launches_that_race_for_the_last_slots_one_wins(slots, needs, order):
    """Each needs all that its hosts have, and would fit if it were alone: whatever comes first, one gets it all."""
    ledgers = [Ledger(slots=many) for many in slots]
    waiting, outcomes = [], []

    def answer(app, ask):
        ledger, request = ledgers[int(ask.to.peer)], ask.request
        match request:
            case Reserve():
                granted = ledger.reserve(app, 1, Need(request.slots), now=0.0)
                if isinstance(granted, Refused):
                    return Declined(request.ask, granted.lack)
                return Agreed(request.ask)
            case Halt():
                ledger.release(app, 1)
        return Ring(held=dict.fromkeys(range(5), 1), running=set(range(5))).answer(ask)

    for number, need in enumerate(needs):
        placed = Placed(1, {PEERS[at]: slots[at] for at in need}, b"charter")
        machine = launch(decide=lambda *_, placed=placed: placed)
        waiting += [(f"app-{number}", machine, ask) for ask in machine.begin()]
    while waiting:
        app, machine, ask = waiting.pop(order.randrange(len(waiting)))
        steps = machine.answered(ask.request.ask, answer(app, ask))
        for each in machine.founded() if any(isinstance(it, Found) for it in steps) else steps:
            if isinstance(each, Ask):
                waiting.append((app, machine, each))
            else:
                outcomes.append(each)
    assert len(outcomes) == len(needs)
    assert any(isinstance(it, Launched) for it in outcomes)
    assert all("lacks" in it.reason for it in outcomes if isinstance(it, Abandoned))


KINDS = st.sampled_from([SendJoin, Measure, Reserve, Host, Begin, Halt])
TROUBLES = st.dictionaries(st.integers(0, 4), KINDS, max_size=3)


@given(declines=TROUBLES, silent=TROUBLES, order=st.randoms(use_true_random=False))
def test_whatever_goes_wrong_it_is_all_or_nothing(declines, silent, order):
    ring = Ring(declines, silent)
    outcome = run(launch(), ring, lambda waiting: order.randrange(len(waiting)))
    if isinstance(outcome, Launched):
        assert ring.begun == {0, 2, 4}
        return
    deaf = {at for troubles in (declines, silent) for at, kind in troubles.items() if kind is Halt}
    assert set(ring.held) <= deaf, "who did not hear the halt lets its reservation expire"
    asked = [at for at, kind in ring.heard if kind is Reserve]
    assert sorted(at for at, kind in ring.heard if kind is Halt) == sorted(asked)
