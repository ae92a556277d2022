"""All or nothing: room is promised once, and a promise that nobody takes up ends by itself."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dataflow.placement.ledger import Granted, Ledger, Need, Refused

APPS = st.sampled_from("abc")
GENERATIONS = st.integers(0, 3)


class Promises(RuleBasedStateMachine):
    """Whatever is asked in whatever order, no more is promised than there is."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger(slots=4, memory_mib=100, hold_s=10.0)
        self.now = 0.0

    @rule(app=APPS, generation=GENERATIONS, slots=st.integers(0, 5), memory_mib=st.integers(0, 110))
    def reserve(self, app, generation, slots, memory_mib):
        before = self.ledger.slots_used, self.ledger.memory_used_mib
        self.ledger.expire(self.now)
        free = self.ledger.slots - self.ledger.slots_used
        left = 100 - self.ledger.memory_used_mib
        runs = app in self.ledger.running()
        answer = self.ledger.reserve(app, generation, Need(slots, memory_mib), self.now)
        if isinstance(answer, Refused):
            assert (self.ledger.slots_used, self.ledger.memory_used_mib) <= before
            assert runs or slots > free or memory_mib > left or "generation" in answer.lack

    @rule(app=APPS, generation=GENERATIONS)
    def start(self, app, generation):
        used = self.ledger.slots_used
        answer = self.ledger.start(app, generation, self.now)
        assert self.ledger.slots_used <= used
        assert isinstance(answer, Refused) or app in self.ledger.running()

    @rule(app=APPS, generation=GENERATIONS, stop=st.booleans())
    def release(self, app, generation, stop):
        self.ledger.release(app, generation, stop=stop)

    @rule(seconds=st.floats(0.0, 20.0))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def nothing_started_and_long_ago_means_nothing_held(self):
        for app in "abc":
            self.ledger.release(app, 9, stop=True)
        self.now += 10.0
        self.ledger.expire(self.now)
        assert self.ledger.slots_used == self.ledger.memory_used_mib == 0

    @invariant()
    def no_more_is_promised_than_there_is(self):
        assert 0 <= self.ledger.slots_used <= 4
        assert 0 <= self.ledger.memory_used_mib <= 100


Promises.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
test_promises = Promises.TestCase


@given(st.permutations(["first", "second"]))
def test_of_two_launches_that_race_for_the_last_slot_one_wins_and_one_is_told_why(order):
    """Each reserves on two peers that have one slot each, in steps that interleave as drawn."""
    peers = [Ledger(slots=1), Ledger(slots=1)]
    answers: dict[str, list[Granted | Refused]] = {app: [] for app in order}
    for ledger in peers:
        for app in order:
            answers[app].append(ledger.reserve(app, 1, Need(1), now=0.0))
    winner, loser = order
    assert all(isinstance(it, Granted) for it in answers[winner])
    assert [getattr(it, "lack", "") for it in answers[loser]] == ["lacks 1 slot (1 of 1 are taken)"] * 2
    for ledger in peers:
        ledger.release(loser, 1)
        assert ledger.start(winner, 1, now=1.0) == Granted(winner, 1, None)
        assert ledger.running() == (winner,)


def test_a_reservation_whose_scheduler_died_ends_by_itself_and_cannot_be_started_later():
    ledger = Ledger(slots=1, hold_s=10.0)
    ledger.reserve("a", 1, Need(1), now=0.0)
    assert isinstance(ledger.reserve("b", 1, Need(1), now=9.9), Refused)
    assert isinstance(ledger.reserve("b", 1, Need(1), now=10.0), Granted)
    late = ledger.start("a", 1, now=10.1)
    assert isinstance(late, Refused) and "ended before the start" in late.lack


def test_the_next_generation_takes_the_room_of_the_one_before():
    ledger = Ledger(slots=2)
    ledger.reserve("a", 1, Need(2), now=0.0)
    ledger.start("a", 1, now=0.0)
    assert isinstance(ledger.reserve("a", 2, Need(1), now=1.0), Granted)
    assert isinstance(ledger.reserve("b", 1, Need(1), now=1.0), Refused)
    ledger.start("a", 2, now=1.0)
    assert isinstance(ledger.reserve("b", 1, Need(1), now=2.0), Granted)
    stale = ledger.reserve("a", 1, Need(1), now=3.0)
    assert isinstance(stale, Refused) and stale.lack == "has generation 2 of the app already"


def test_asking_again_does_not_count_twice():
    ledger = Ledger(slots=2)
    for at in range(3):
        assert isinstance(ledger.reserve("a", 1, Need(2), now=float(at)), Granted)
    assert ledger.slots_used == 2
    assert ledger.start("a", 1, now=3.0) == ledger.start("a", 1, now=4.0) == ledger.reserve("a", 1, Need(2), now=5.0)
