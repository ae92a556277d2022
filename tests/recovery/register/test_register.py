"""A register by hand: each rule as a story in which the one message that matters is held back or repeated."""

import random
from typing import Any

import pytest

from overlay.ids import Key, PeerId
from recovery.disk import DiskFull
from recovery.folder import Folder
from recovery.register.ballot import START, Ballot
from recovery.register.messages import NO_RECORD, NOT_ADMITTED, OTHER_RECORD, Abstained, Accept, Accepted, Prepare
from recovery.register.proposer import (
    Ask,
    Decided,
    NoQuorum,
    Proposal,
    Refused,
    Unsure,
    Unwilling,
    Wait,
)
from recovery.register.store import Registers, name_of
from recovery.register.value import CONTENT_BYTES_MAX, EMPTY, MARKS_MAX, ContentTooLarge
from tests.recovery.register.world import APP, MemoryDisk, World, appending, items, reading

ANYBODY = range(1, 8)


def deliver(world, proposal, steps, to=ANYBODY):
    """Put the questions among `steps` to the peers in `to`, in order; what is said then."""
    said = []
    for ask in steps:
        if ask.to in to:
            reply, body = world.peers[ask.to].registers.answer(ask.request, ask.body)
            said += proposal.answered(ask.request.ask, reply, body)
    return said


def until(world, proposal, is_it, to=ANYBODY):
    """The questions of the first round that is one of those, not put to anybody yet."""
    steps = proposal.begin()
    while not is_it(steps[0].request):
        steps = deliver(world, proposal, steps, to)
    return steps


def is_accept(request):
    return isinstance(request, Accept)


def finish(world, proposal, steps, to=ANYBODY):
    """Let the others be silent, and go on until the end."""
    for _ in range(50):
        said = []
        for step in steps:
            if isinstance(step, Wait):
                said += proposal.waited()
            elif not isinstance(step, Ask):
                return step
            elif step.to in to:
                reply, body = world.peers[step.to].registers.answer(step.request, step.body)
                said += proposal.answered(step.request.ask, reply, body)
            else:
                said += proposal.unanswered(step.request.ask)
        steps = said
    raise AssertionError("fifty rounds and no end")


def kinds(steps):
    return [(int(step.to), type(step.request)) for step in steps]


def append(world, me, name, config=None, to=ANYBODY, **options):
    proposal = world.proposal(me, appending(name), config, **options)
    return finish(world, proposal, proposal.begin(), to)


def read(world, config=None, to=ANYBODY):
    proposal = world.proposal(7, reading, config)
    return items(finish(world, proposal, proposal.begin(), to).content)


# Changes.


def test_changes_follow_each_other_and_a_refusal_says_what_it_saw():
    world = World(1)
    assert append(world, 1, "a").content == b"a"
    end = append(world, 5, "b")
    assert isinstance(end, Decided) and (end.content, end.version) == (b"a b", 2)
    no = world.proposal(2, appending("c", at_length=0))
    end = finish(world, no, no.begin())
    assert isinstance(end, Refused) and end.content == b"a b"
    assert read(world) == ["a", "b"]


def test_three_who_duel_all_finish():
    for seed in range(20):
        world = World(seed)
        ends: list[Any] = []
        for me in (1, 2, 3):
            world.start(PeerId(Key(me)), world.proposal(me, appending(str(me))), ends.append)
        world.heap.run_to(60.0)
        assert all(isinstance(end, Decided) for end in ends) and len(ends) == 3
        assert sorted(read(world)) == ["1", "2", "3"]


def test_the_next_change_of_the_same_proposer_takes_one_round():
    world = World(1)
    standing = append(world, 1, "a").standing
    for name in "bcd":
        proposal = world.proposal(1, appending(name), standing=standing)
        asks = proposal.begin()
        assert kinds(asks) == [(1, Accept), (2, Accept), (3, Accept)]
        (end,) = deliver(world, proposal, asks)
        standing = end.standing
    assert read(world) == list("abcd")


def test_a_standing_ballot_falls_when_somebody_came_between_and_cannot_be_spent_twice():
    world = World(1)
    standing = append(world, 1, "a").standing
    append(world, 2, "b")
    assert append(world, 1, "c", standing=standing).content == b"a b c"
    assert kinds(world.proposal(1, appending("d"), standing=standing).begin())[0] == (1, Prepare)


def test_a_read_takes_one_round_when_a_majority_agrees():
    world = World(1)
    append(world, 1, "a")
    proposal = world.proposal(5, reading)
    steps = deliver(world, proposal, proposal.begin())
    assert kinds(steps) == [(1, Prepare), (2, Prepare), (3, Prepare)]  # it had to learn how far the ballots are
    (end,) = deliver(world, proposal, steps)
    assert isinstance(end, Decided) and end.content == b"a"


def test_a_write_that_only_one_member_took_is_settled_before_anybody_is_told_of_it():
    world = World(1)
    first = world.proposal(1, appending("a"))
    deliver(world, first, until(world, first, is_accept), to=[1])
    no = world.proposal(2, appending("b", at_length=0))
    end = finish(world, no, until(world, no, is_accept, to=[1, 2]))
    assert isinstance(end, Refused) and end.content == b"a"
    assert read(world, to=[2, 3]) == ["a"]


def test_a_write_that_somebody_else_took_up_is_found_and_not_repeated():
    world = World(1)
    mine = world.proposal(1, appending("a", at_length=0))
    asks = until(world, mine, is_accept)
    deliver(world, mine, asks[:1])  # member 1 keeps it; the others have not heard
    assert append(world, 2, "b", to=[1, 2]).content == b"a b"
    end = finish(world, mine, [ask for ask in asks if ask.to != 1])
    assert isinstance(end, Decided) and end.content == b"a b"


def test_an_open_write_is_settled_by_the_next_proposal_of_the_same_change():
    world = World(1)
    mine = world.proposal(1, appending("a"))
    end = finish(world, mine, until(world, mine, is_accept), to=[1])
    assert isinstance(end, NoQuorum) and (end.needed, end.found) == (2, 1) and end.again is not None
    append(world, 2, "b")
    assert append(world, 1, "a", again=end.again).content == b"a b"


def test_an_open_write_that_too_many_changes_have_passed_is_not_repeated():
    world = World(1)
    mine = world.proposal(1, appending("a"))
    end = finish(world, mine, until(world, mine, is_accept), to=[1])
    standing = append(world, 2, "b").standing
    for number in range(MARKS_MAX):
        standing = append(world, 2, str(number), standing=standing).standing
    assert isinstance(append(world, 1, "a", again=end.again), Unsure)
    assert read(world)[:2] == ["a", "b"]


def test_no_majority_is_said_with_numbers_and_nothing_was_written():
    world = World(1, members=5)
    assert append(world, 1, "a", to=[2, 5]) == NoQuorum(3, 2, world.first, None)


def test_content_that_is_too_large_is_refused_with_a_sentence():
    world = World(1)
    proposal = world.proposal(1, lambda content: bytes(CONTENT_BYTES_MAX + 1))
    with pytest.raises(ContentTooLarge, match="keep a digest"):
        finish(world, proposal, proposal.begin())


def test_a_body_that_was_damaged_on_its_way_is_no_vote():
    world = World(1)
    proposal = world.proposal(1, appending("a"))
    for ask in until(world, proposal, is_accept):
        reply, _ = world.peers[ask.to].registers.answer(ask.request, b"b")
        assert isinstance(reply, Abstained)
    append(world, 1, "a")
    proposal = world.proposal(2, reading)
    steps = deliver(world, proposal, proposal.begin())
    reply, body = world.peers[steps[0].to].registers.answer(steps[0].request)
    assert body == b"a" and proposal.answered(steps[0].request.ask, reply, b"?") == []
    assert finish(world, proposal, steps[1:]).content == b"a"


# Amnesia.


@pytest.mark.parametrize("is_damage", [False, True])
def test_a_member_that_lost_its_file_does_not_vote_and_two_of_three_decide(is_damage):
    world = World(1)
    append(world, 1, "a")
    world.forget(3, is_damage=is_damage)
    assert append(world, 1, "b").content == b"a b"
    assert append(world, 1, "c", to=[2, 3]) == NoQuorum(2, 1, world.first, None)


def test_a_member_that_forgot_is_not_admitted_again_by_a_repeated_admission():
    world = World(1)
    admission = Accept(9, APP, world.first, START, START, EMPTY.header)
    append(world, 1, "a")
    world.forget(3)
    registers = world.peers[PeerId(Key(3))].registers
    assert registers.answer(admission)[0] == Abstained(9, NO_RECORD)
    move = world.move(2, [2, 3, 4])
    deliver(world, move, move.begin())  # enlisted anew, and no more
    assert registers.answer(admission)[0] == Abstained(9, OTHER_RECORD)
    assert isinstance(append(world, 1, "b", to=[3, 1]), NoQuorum)


def test_a_member_that_forgot_votes_again_after_a_move():
    world = World(1)
    append(world, 1, "a")
    world.forget(3)
    move = world.move(1, [1, 2, 3])
    end = finish(world, move, move.begin())
    assert isinstance(end, Decided) and end.config.number == 2
    assert append(world, 1, "b", end.config, to=[2, 3]).content == b"a b"


def test_a_full_disk_gives_no_answer_and_changes_nothing():
    class FullDisk(MemoryDisk):
        def put(self, name, data):
            raise DiskFull(f"{name}: no room")

    world = World(1)
    append(world, 1, "a")
    before = world.peers[PeerId(Key(3))].disk.files
    full = Registers(FullDisk(files=dict(before)), PeerId(Key(3)), random.Random(1))
    with pytest.raises(DiskFull):
        full.answer(Prepare(1, APP, world.first, Ballot(99, PeerId(Key(1)))))
    assert full._disk.get(name_of(APP)) == before[name_of(APP)]


def test_a_register_on_real_files_is_there_after_a_restart(tmp_path):
    world = World(1)
    for peer in world.peers.values():
        folder = Folder(tmp_path / str(int(peer.id)))
        folder.put(name_of(APP), peer.disk.files[name_of(APP)]) if peer.id <= 3 else None
        peer.registers = Registers(folder, peer.id, random.Random(1))
    append(world, 1, "a")
    for peer in world.peers.values():
        peer.registers = Registers(Folder(tmp_path / str(int(peer.id))), peer.id, random.Random(2))
    assert read(world) == ["a"]
    world.peers[PeerId(Key(2))].registers.forget(APP)
    assert read(world, to=[1, 3]) == ["a"]


# Who votes.


def test_a_move_takes_the_value_along_and_an_old_acquaintance_finds_the_way():
    world = World(1)
    append(world, 1, "a")
    move = world.move(1, [1, 4, 5])
    end = finish(world, move, move.begin())
    assert isinstance(end, Decided) and end.config.peers == (1, 4, 5)
    assert append(world, 2, "b", world.first).config == end.config
    assert read(world, end.config, to=[4, 5]) == ["a", "b"]


def test_a_register_can_move_to_strangers_only_and_be_found_by_the_seal():
    world = World(1)
    append(world, 1, "a")
    move = world.move(1, [4, 5, 6])
    finish(world, move, move.begin())
    assert append(world, 7, "b", world.first).content == b"a b"


def sealed(world, members):
    """A move that is cut short when its seal is chosen: nobody has been admitted. What would admit them."""
    return until(world, world.move(1, members), lambda it: is_accept(it) and it.config != world.first)


def test_a_half_done_move_is_finished_by_whoever_comes_along():
    world = World(1)
    append(world, 1, "a")
    sealed(world, [1, 4, 5])
    end = append(world, 7, "b")
    assert end.content == b"a b" and end.config.number == 2 and end.config.peers == (1, 4, 5)


def test_a_move_that_reached_one_member_is_finished_by_what_that_one_keeps():
    world = World(1)
    append(world, 1, "a")
    admissions = sealed(world, [1, 4, 5])
    world.peers[PeerId(Key(1))].registers.answer(admissions[0].request, admissions[0].body)
    # The others of the old config are dead, so nobody else has the seal.
    end = append(world, 7, "b", to=[1, 4, 5])
    assert end.content == b"a b" and end.config.number == 2


def test_whoever_was_told_of_a_new_config_too_early_can_go_back():
    world = World(1)
    append(world, 1, "a")
    sealed(world, [4, 5, 6])
    end = append(world, 7, "b", to=[1, 2, 3])
    assert end == NoQuorum(2, 0, world.first, None)
    assert append(world, 7, "b", end.config).content == b"a b"


def test_a_proposal_that_was_under_way_when_the_seal_came_ends_in_the_new_config():
    world = World(1)
    late = world.proposal(2, appending("late"))
    asks = until(world, late, is_accept)
    append(world, 1, "a")
    move = world.move(1, [1, 4, 5])
    finish(world, move, move.begin())
    end = finish(world, late, asks)
    assert end.content == b"a late" and end.config.number == 2


def lonely_seal(world):
    """Member 1 alone has taken the seal. Somebody reads it, and is overtaken by a change that knows nothing of it."""
    move = world.move(1, [1, 4, 5])
    deliver(world, move, until(world, move, is_accept), to=[1])
    follower = world.proposal(7, appending("follower"))
    asks = until(world, follower, is_accept, to=[1, 2])
    append(world, 6, "other", to=[2, 3])
    finish(world, follower, asks)
    return read(world)


def test_a_seal_is_followed_only_once_it_is_chosen(monkeypatch):
    assert lonely_seal(World(1)) == ["other", "follower"]
    original = Proposal._consider

    def hasty(self, value, *, is_chosen):
        return original(self, value, is_chosen=is_chosen or value.header.next is not None)

    monkeypatch.setattr(Proposal, "_consider", hasty)
    assert lonely_seal(World(1)) == ["follower"]  # and that is what the rule is for


def test_two_moves_at_once_make_one_config_and_the_other_is_told():
    world = World(1)
    append(world, 1, "a")
    ends: list[Any] = []
    world.start(PeerId(Key(1)), world.move(1, [1, 2, 4]), ends.append)
    world.start(PeerId(Key(2)), world.move(2, [1, 2, 5]), ends.append)
    world.heap.run_to(60.0)
    assert sorted(type(end).__name__ for end in ends) == ["Decided", "Refused"]
    assert ends[0].config == ends[1].config and ends[0].config.number == 2


def test_a_newcomer_that_does_not_answer_is_named_and_nothing_is_sealed():
    world = World(1)
    move = world.move(1, [1, 2, 4])
    assert finish(world, move, move.begin(), to=[1, 2, 3]) == Unwilling((PeerId(Key(4)),))
    assert append(world, 1, "a").config == world.first


def test_a_member_that_is_silent_just_now_may_stay():
    world = World(1, members=5)
    move = world.move(1, [1, 2, 3, 4, 6])
    end = finish(world, move, move.begin(), to=[1, 3, 4, 6])
    assert isinstance(end, Refused | Decided) and end.config.number == 2
    assert append(world, 1, "a", end.config, to=[2, 3, 4]).content == b"a"  # an Accept has admitted member 2


def test_a_member_that_was_not_told_abstains_from_promises_only():
    world = World(1)
    admission, *_ = sealed(world, [4, 5, 6])
    registers = world.peers[PeerId(Key(4))].registers
    config = admission.request.config
    prepare = Prepare(8, APP, config, Ballot(99, PeerId(Key(7))))
    assert registers.answer(prepare)[0] == Abstained(8, NOT_ADMITTED)
    assert isinstance(registers.answer(admission.request, admission.body)[0], Accepted)
    assert world.config_of(PeerId(Key(4))) == config


def test_two_launches_with_the_same_members_found_one_register():
    world = World(1)
    for name in ("a", "b"):
        founding = world.founding(5, [3, 2, 1], appending(name))
        end = finish(world, founding, founding.begin())
        assert isinstance(end, Decided) and end.config == world.first
    assert read(world) == ["a", "b"]


def test_a_launch_after_a_move_finds_the_register_that_there_is():
    world = World(1)
    append(world, 1, "a")
    move = world.move(1, [1, 4, 5])
    finish(world, move, move.begin())
    founding = world.founding(5, [1, 2, 3], appending("b", at_length=0))
    end = finish(world, founding, founding.begin())
    assert isinstance(end, Refused) and end.content == b"a" and end.config.number == 2


def test_members_are_different_peers():
    world = World(1)
    with pytest.raises(ValueError, match="each once"):
        world.move(1, [1, 1, 2])
