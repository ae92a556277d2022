"""Each rule that the register stands on, broken on purpose: the storms must notice. If not, they prove nothing."""

from dataclasses import replace

import pytest

from recovery.register.acceptor import Acceptor, Turn
from recovery.register.ballot import START
from recovery.register.config import Config
from recovery.register.messages import Promised
from recovery.register.proposer import Proposal, Refused, Standing
from recovery.register.value import Value
from tests.recovery.register.checker import check, last_word
from tests.recovery.register.world import storm

SEEDS_MAX = 120


def not_fsynced(patch):
    """A member answers before its record is stored for good."""
    return {"is_disk_lazy": True}


def a_token_that_repeats(patch):
    """Whoever has forgotten everything is enlisted as if he had not, and votes again."""
    original = Acceptor.on_enlist
    patch.setattr(Acceptor, "on_enlist", lambda self, request, draw: original(self, request, 1))
    return {"moves": 8}


def a_ballot_promised_twice(patch):
    original = Acceptor.on_prepare

    def on_prepare(self, request):
        votes = self.votes
        if votes is not None and votes.config == request.config and votes.promised == request.ballot:
            return Turn(Promised(request.ask, votes.accepted, votes.header), self.content)
        return original(self, request)

    patch.setattr(Acceptor, "on_prepare", on_prepare)


def a_promise_that_is_not_kept(patch):
    original = Acceptor.on_accept

    def on_accept(self, request, body):
        votes = self.votes and replace(self.votes, promised=START)
        return original(replace(self, votes=votes), request, body)

    patch.setattr(Acceptor, "on_accept", on_accept)


def a_member_that_votes_in_two_configs(patch):
    prepare, accept = Acceptor.on_prepare, Acceptor.on_accept

    def as_mine(self, request):
        mine = self.votes and self.votes.config
        return replace(request, config=mine) if mine and mine.number > request.config.number else request

    patch.setattr(Acceptor, "on_prepare", lambda self, request: prepare(self, as_mine(self, request)))
    patch.setattr(Acceptor, "on_accept", lambda self, request, body: accept(self, as_mine(self, request), body))


def no_marks(patch):
    """A change that somebody else took up is made once more."""
    patch.setattr(Value, "is_marked", lambda self, mark: False)


def a_refusal_of_what_may_vanish(patch):
    original = Proposal._consider

    def consider(self, value, *, is_chosen):
        return original(self, value, is_chosen=is_chosen or self._next_of(value)[1] is Refused)

    patch.setattr(Proposal, "_consider", consider)


def a_read_of_what_may_vanish(patch):
    original = Proposal._consider
    patch.setattr(Proposal, "_consider", lambda self, value, *, is_chosen: original(self, value, is_chosen=True))


def a_standing_ballot_used_twice(patch):
    patch.setattr(Standing, "spend", lambda self: self._found)


def a_write_after_the_seal(patch):
    original = Proposal._next_of
    patch.setattr(Proposal, "_next_of", lambda self, value: original(self, value.opened()))


def a_majority_of_half(patch):
    patch.setattr(Config, "quorum", property(lambda self: len(self.members) // 2))


MUTANTS = [
    not_fsynced,
    a_token_that_repeats,
    a_ballot_promised_twice,
    a_promise_that_is_not_kept,
    a_member_that_votes_in_two_configs,
    no_marks,
    a_refusal_of_what_may_vanish,
    a_read_of_what_may_vanish,
    a_standing_ballot_used_twice,
    a_write_after_the_seal,
    a_majority_of_half,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda it: it.__name__)
def test_the_storms_notice(mutant, monkeypatch):
    options = mutant(monkeypatch) or {}
    for seed in range(1, SEEDS_MAX + 1):
        world = storm(seed, **options)
        try:
            check(world, last_word(world))
        except AssertionError as caught:
            print(f"after {seed} storms: {caught}"[:200])
            return
    pytest.fail(f"{SEEDS_MAX} storms have not noticed")
