"""Whatever happens to messages, peers and disks: one list, each change in it once, and everybody sees it grow."""

from collections import Counter

import pytest

from tests.recovery.register.checker import check, last_word
from tests.recovery.register.world import storm

SEEDS = 240


@pytest.fixture(scope="module")
def storms():
    return [storm(seed) for seed in range(1, SEEDS + 1)]


def test_no_change_is_lost_or_doubled_and_no_reader_sees_a_fork(storms):
    for world in storms:
        check(world, last_word(world))


def test_the_storms_have_been_everywhere(storms):
    seen: Counter[str] = Counter()
    for world in storms:
        seen += world.seen
    for mark in (
        "append Decided",
        "set Decided",
        "set Refused",
        "read Decided",
        "move Decided",
        "move Refused",
        "append NoQuorum",
        "Outvoted",
        "Moved",
        "Abstained no-record",
        "Abstained other-record",
        "Abstained not-admitted",
        "wait",
        "crash",
        "forgot",
        "lost",
    ):
        assert seen[mark] > 20, f"{mark}: {seen[mark]} times in {SEEDS} storms; seen were {dict(seen)}"


def test_one_seed_is_one_trace():
    first, second = storm(5), storm(5)
    assert first.ops and [(op.name, op.began, op.ended, op.content) for op in first.ops] == [
        (op.name, op.began, op.ended, op.content) for op in second.ops
    ]
    assert first.seen == second.seen
