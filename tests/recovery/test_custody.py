"""Fragments on other peers: stored means stored, any n-m may go, what is lost is said, what can be is repaired."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from recovery.custody.deposit import Deposited, Undeposited
from recovery.custody.files import file_name
from recovery.custody.messages import Kept, PutFragment, drop_all, drop_instance
from recovery.custody.release import drop_before
from recovery.custody.retrieval import NotEnoughFragments
from recovery.manifest import unpack_manifest
from recovery.naming import fragment_of
from tests.recovery.custodians import APP, INSTANCE, World, a_manifest

STATE = bytes(range(256)) * 5


def test_every_two_of_six_holders_may_be_lost_and_no_three():
    world = World()
    part = world.store(STATE, epoch=7)
    assert part.losses_survived() == 2
    for lost in combinations(part.holders, 2):
        world.down = set(lost)
        assert world.retrieve(part) == STATE
    for too_many in combinations(part.holders, 3):
        world.down = set(too_many)
        loss = world.retrieve(part)
        assert isinstance(loss, NotEnoughFragments)
        assert (loss.app, loss.instance, loss.epoch, loss.needed, loss.found) == (APP, INSTANCE, 7, 4, 3)
        assert loss.silent == tuple(sorted(too_many))
    world.down = set()
    assert world.retrieve(part) == STATE


def test_lost_for_good_and_lost_from_sight_are_different_sentences():
    world = World()
    part = world.store(STATE, epoch=7)
    for peer in part.holders[:2]:
        world.disks[peer].files.clear()
        world.restart(peer)
    assert world.retrieve(part) == STATE
    world.kill(part.holders[2])
    loss = world.retrieve(part)
    assert str(loss) == (
        "DATA_LOSS: count/0 of app aaaaaaaaaaaa, epoch 7: 4 fragments are needed and 3 were found; "
        "bring back 00000000, which did not answer"
    )
    world.disks[part.holders[2]].files.clear()
    world.restart(part.holders[2])
    assert "every holder has answered" in str(world.retrieve(part))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(1, 3), (2, 4), (4, 6), (3, 3)]), st.floats(0, 0.5), st.data())
def test_whatever_is_lost_on_the_way_stored_means_that_the_promised_losses_are_survived(seed, shape, loss, data):
    needed, total = shape
    world = World(peers=12, seed=seed)
    world.loss = loss
    for peer in data.draw(st.sets(st.sampled_from(sorted(world.disks)), max_size=4)):
        world.disks[peer].bytes_max = 100  # full
    outcome = world.deposit(STATE, epoch=3, needed=needed, total=total)
    world.loss = 0.0
    for peer in list(world.holders):  # a power cut everywhere: only what is on disk counts
        world.restart(peer)
    if isinstance(outcome, Undeposited):
        assert "is not stored" in outcome.reason
        return
    assert len(set(outcome.part.holders)) == total
    world.kill(*data.draw(st.permutations(outcome.part.holders))[: total - needed])
    assert world.retrieve(outcome.part) == STATE


def test_a_refusing_or_silent_holder_is_replaced_and_the_silent_one_is_remembered():
    world = World()
    world.disks[PeerId(Key(1))].bytes_max = 10
    lost = []

    def lose_the_answer_of_peer_2(ask):
        world.loss = 1.0 if ask.to == 2 else 0.0
        lost.extend([ask] if ask.to == 2 else [])

    world.on_ask = lose_the_answer_of_peer_2
    outcome = world.deposit(STATE, epoch=1, wished={index: PeerId(Key(index + 1)) for index in range(6)})
    assert isinstance(outcome, Deposited)
    assert lost
    assert not {1, 2} & set(outcome.part.holders)
    assert len(set(outcome.part.holders)) == 6
    assert outcome.strays == (2,)


def test_a_receipt_for_something_else_is_none():
    world = World()
    world.liars[PeerId(Key(1))] = lambda reply, body: (Kept(reply.ask, bytes(32)), body)
    outcome = world.deposit(STATE, epoch=1, wished={index: PeerId(Key(index + 1)) for index in range(6)})
    assert isinstance(outcome, Deposited)
    assert 1 not in outcome.part.holders


def test_a_holder_that_sends_something_else_is_one_fragment_fewer():
    world = World()
    part = world.store(STATE, epoch=1)
    for count, peer in enumerate(part.holders, start=1):
        world.liars[peer] = lambda reply, body: (reply, body[::-1])
        got = world.retrieve(part)
        if count <= 2:
            assert got == STATE
        else:
            assert isinstance(got, NotEnoughFragments)
            assert (got.found, got.silent) == (6 - count, ())


def test_it_is_not_stored_when_there_is_one_holder_too_few():
    world = World(peers=5)
    outcome = world.deposit(STATE, epoch=1)
    assert isinstance(outcome, Undeposited)
    assert "every peer with room holds a fragment of it already" in outcome.reason
    doubled = world.deposit(STATE, epoch=1, number=1, may_double=True)
    assert isinstance(doubled, Deposited)
    assert doubled.part.losses_survived() == 1


def test_without_anybody_it_is_not_stored():
    world = World(peers=2)
    world.kill(*world.holders)
    outcome = world.deposit(STATE, epoch=1)
    assert isinstance(outcome, Undeposited)
    assert "no peer has room for another fragment" in outcome.reason


def test_holders_without_quota_are_not_enough_and_say_what_is_left():
    world = World(quota=600)
    first = world.store(STATE, epoch=1)
    outcome = world.deposit(STATE, epoch=2, wished=dict(enumerate(first.holders)))
    assert isinstance(outcome, Undeposited)
    assert "the quota of 600 bytes leaves" in outcome.reason


@pytest.mark.parametrize("moment", ["before put", "after put"])
def test_a_holder_that_crashes_while_it_writes_is_replaced_and_never_harms(moment):
    world = World()
    world.disks[PeerId(Key(3))].crash_at = moment
    outcome = world.deposit(STATE, epoch=1, wished={index: PeerId(Key(index + 1)) for index in range(6)})
    assert isinstance(outcome, Deposited)
    assert 3 not in outcome.part.holders
    assert outcome.strays == (3,)
    world.disks[PeerId(Key(3))].crash_at = None
    world.restart(PeerId(Key(3)))
    assert len(world.disks[PeerId(Key(3))].files) == (moment == "after put")
    assert world.retrieve(outcome.part) == STATE
    # What the stray kept goes with the next drop that it hears.
    later = world.store(STATE, epoch=2)
    world.tell_all(drop_before(1, [a_manifest(later, epoch=2)]))
    assert world.disks[PeerId(Key(3))].names() == [
        file_name(fragment_of(later.id_in(APP, INSTANCE), index))
        for index, peer in enumerate(later.holders)
        if peer == 3
    ]


def test_a_flipped_byte_on_a_disk_is_a_lost_fragment_and_is_rebuilt():
    world = World()
    part = world.store(STATE, epoch=7)
    victim = part.holders[1]
    world.disks[victim].flip(world.disks[victim].names()[0], at=-5)
    world.kill(part.holders[5])
    assert world.retrieve(part) == STATE
    assert "its digest is not what it was" in next(iter(world.holders[victim].damaged.values()))
    outcome = world.repair(part, gone=[part.holders[5]])
    assert outcome.lost == (1, 5)
    assert outcome.unplaced == () and outcome.silent == ()
    assert outcome.part.losses_survived(world.down) == 2
    for lost in combinations(outcome.part.holders, 2):
        world.down = set(lost)
        assert world.retrieve(outcome.part) == STATE


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(1, 3), (2, 5), (4, 6)]), st.data())
def test_repair_after_repair_the_promise_holds(seed, shape, data):
    needed, total = shape
    world = World(peers=14, seed=seed)
    part = world.store(STATE, epoch=1, needed=needed, total=total)
    for _ in range(3):
        spare = total - needed if len(world.down) <= 14 - total - (total - needed) else 0
        lost = data.draw(st.permutations(part.holders))[: data.draw(st.integers(0, spare))]
        world.kill(*lost)
        outcome = world.repair(part, gone=world.down)
        assert set(outcome.lost) == {index for index, peer in enumerate(part.holders) if peer in lost}
        assert outcome.unplaced == ()
        assert not world.down & set(outcome.part.holders)
        assert outcome.part.shape == part.shape
        part = outcome.part
    world.kill(*data.draw(st.permutations(part.holders))[: total - needed])
    assert world.retrieve(part) == STATE


def test_a_holder_with_a_new_disk_gets_its_fragment_again():
    world = World(peers=6)
    part = world.store(STATE, epoch=1)
    world.disks[part.holders[2]].files.clear()
    world.restart(part.holders[2])
    outcome = world.repair(part)
    assert (outcome.lost, outcome.unplaced, outcome.part) == ((2,), (), part)
    world.kill(part.holders[0], part.holders[5])
    assert world.retrieve(part) == STATE


def test_nothing_lost_is_nothing_moved_and_no_fragment_is_sent():
    world = World()
    part = world.store(STATE, epoch=7)
    outcome = world.repair(part)
    assert outcome.part == part and outcome.lost == ()
    assert world.bodies_sent() == []


def test_an_audit_tells_good_lost_and_silent_apart():
    world = World()
    part = world.store(STATE, epoch=7)
    assert world.audit(part).losses_survived() == 2
    dead, silent, wiped, flipped, broken = part.holders[:5]
    world.kill(dead, silent)
    world.disks[wiped].files.clear()
    world.disks[flipped].flip(world.disks[flipped].names()[0], at=-1)
    world.disks[broken].is_broken = True
    audited = world.audit(part, gone=[dead])
    assert (audited.good, audited.lost, audited.silent) == ((5,), (0, 2, 3), (1, 4))
    assert audited.losses_survived() == -1
    assert [reason for _, reason in audited.reasons] == [
        "its holder is dead",
        "no answer within 1 s",
        "its file is damaged: it is gone",
        "its file is damaged: its digest is not what it was",
        "input/output error; look after the disk, then start the peer again",
    ]
    assert world.bodies_sent() == []
    world.kill(*part.holders)
    assert world.audit(part, gone=part.holders).lost == tuple(range(6))


def test_a_repair_fetches_no_more_than_it_needs():
    world = World()
    part = world.store(STATE, epoch=7)
    world.kill(part.holders[0])
    world.repair(part, gone=world.down)
    assert len(world.bodies_sent()) == 4


def test_silence_is_no_loss_but_it_is_told():
    world = World()
    part = world.store(STATE, epoch=7)
    world.kill(part.holders[0])
    outcome = world.repair(part)
    assert outcome.part == part
    assert outcome.silent == (part.holders[0],)


def test_a_repair_that_finds_too_few_says_so_and_names_the_silent():
    world = World()
    part = world.store(STATE, epoch=7)
    world.kill(*part.holders[:3])
    loss = world.repair(part, gone=part.holders[:2])
    assert isinstance(loss, NotEnoughFragments)
    assert (loss.needed, loss.found, loss.silent) == (4, 3, (part.holders[2],))


def test_a_repair_without_room_keeps_what_it_could_place():
    world = World(peers=7)
    part = world.store(STATE, epoch=7)
    world.kill(*part.holders[:2])
    outcome = world.repair(part, gone=world.down)
    assert outcome.lost == (0, 1)
    assert outcome.unplaced == (1,)
    assert outcome.part.losses_survived(world.down) == 1
    assert "add a peer" in outcome.reason
    assert world.retrieve(outcome.part) == STATE


def test_fragments_of_another_epoch_under_the_same_holders_are_never_taken():
    world = World()
    old = world.store(b"old" * 100, epoch=1)
    new = world.store(b"new" * 100, epoch=2)
    assert old.holders == new.holders
    for index, peer in enumerate(new.holders[:3]):  # a disk that mixes up its files
        files = world.disks[peer].files
        names = [file_name(fragment_of(part.id_in(APP, INSTANCE), index)) for part in (old, new)]
        files[names[1]] = files[names[0]]
    loss = world.retrieve(new)
    assert isinstance(loss, NotEnoughFragments) and loss.found == 3
    assert world.retrieve(old) == b"old" * 100


# Dropping.


def a_history(world):
    """A base, deltas on it, a new base; the manifests of epochs 1 to 6."""
    parts = [
        world.store(STATE + bytes([it]), epoch=it, kind="base" if it in (1, 5) else "delta") for it in range(1, 7)
    ]
    first, second = parts[:4], parts[4:]
    chains = [first[:it] for it in range(1, 5)] + [second[:it] for it in range(1, 3)]
    return [a_manifest(*chain, epoch=epoch) for epoch, chain in enumerate(chains, start=1)]


def is_whole(world, manifest):
    return all(isinstance(world.retrieve(part), bytes) for part in manifest.parts)


def test_bases_that_later_deltas_build_on_stay():
    world = World()
    manifests = a_history(world)
    world.tell_all(drop_before(1, manifests[2:4]))
    assert all(is_whole(world, it) for it in manifests[2:])
    world.tell_all(drop_before(2, manifests[4:6]))
    assert [is_whole(world, it) for it in manifests] == [False] * 4 + [True] * 2


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.data())
def test_late_and_repeated_drops_never_take_what_the_two_newest_need(committed, data):
    world = World()
    manifests = a_history(world)
    late = data.draw(st.lists(st.integers(1, committed), max_size=6))
    for last in (committed, *late):
        world.tell_all(drop_before(1, manifests[max(0, last - 2) : last]))
    assert all(is_whole(world, it) for it in manifests[committed - 2 :])


def test_what_was_never_committed_falls_below_the_floor_of_the_next_generation():
    world = World()
    committed = world.store(STATE, epoch=4, generation=1)
    rolled_back = world.store(STATE + b"5", epoch=5, generation=1)
    again = world.store(STATE + b"6", epoch=5, generation=2)
    newest = world.store(STATE + b"7", epoch=6, generation=2)
    kept = [a_manifest(again, generation=2, epoch=5), a_manifest(newest, generation=2, epoch=6)]
    world.tell_all(drop_before(1, kept))
    assert isinstance(world.retrieve(rolled_back), NotEnoughFragments)
    assert isinstance(world.retrieve(committed), NotEnoughFragments)
    assert world.retrieve(again) == STATE + b"6"
    assert world.retrieve(newest) == STATE + b"7"


def test_an_app_that_ended_leaves_nothing_behind_not_even_wrecks():
    world = World()
    part = world.store(STATE, epoch=1)
    victim = part.holders[0]
    world.disks[victim].flip(world.disks[victim].names()[0], at=3)
    world.restart(victim)
    world.tell_all(drop_instance(1, APP, "another/0"))
    assert isinstance(world.retrieve(part), bytes)
    world.tell_all(drop_all(2, APP))
    assert all(disk.files == {} for disk in world.disks.values())
    assert all(it.bytes_used == 0 and it.apps() == [] for it in world.holders.values())


def test_the_manifest_of_a_restore_travels_as_bytes():
    world = World()
    manifest = unpack_manifest(a_history(world)[3].pack())
    assert [world.retrieve(part)[-1] for part in manifest.parts] == [1, 2, 3, 4]
    assert manifest.losses_survived() == 2
    assert manifest.losses_survived(manifest.parts[0].holders[:1]) == 1


def test_questions_carry_generation_and_epoch():
    world = World()
    world.store(STATE, epoch=7, generation=3)
    names = {it.request.fragment for it in world.asked if isinstance(it.request, PutFragment)}
    assert {(it.generation, it.epoch) for it in names} == {(3, 7)}
