"""A whole snapshot's life: planned, sliced, sealed, coded, stored; peers die; restored, elsewhere, byte by byte."""

from overlay.ids import Key, PeerId
from recovery.coding.coded import code
from recovery.coding.sealing import seal
from recovery.coding.slices import slices
from recovery.custody.deposit import Deposit
from recovery.holders import Candidate
from recovery.manifest import Manifest, Part, unpack_manifest
from recovery.naming import PartId
from recovery.strategy import Strategy, plan
from tests.recovery.custodians import APP, INSTANCE, KEY, World

ME = Candidate(PeerId(Key(99)), "zone-0", 0.0, 10**9, 1e6)


def store(world, plan, *, epoch, kind, state, first_number=0):
    parts: list[Part] = []
    for number, data in enumerate(slices(state, needed=plan.needed), start=first_number):
        part = PartId(APP, INSTANCE, 1, epoch, number)
        coded = code(seal(KEY, part, data), needed=plan.needed, total=plan.total)
        deposit = Deposit(
            part,
            "more" if parts else kind,
            coded.shape,
            dict(enumerate(coded.fragments)),
            wished=dict(enumerate(plan.holders)),
            candidates=world.candidates(),
            first_ask=world.numbers(),
        )
        parts.append(world.run(deposit).part)
    return parts


def test_nine_megabytes_and_two_deltas_outlive_the_peers_that_may_die():
    world = World(peers=9, zones=3)
    base, deltas = bytes(range(256)) * 36_000, [b"epoch eight", b"epoch nine"]
    chosen = plan(me=ME, candidates=world.candidates(), state_bytes=len(base), wanted=Strategy.ERASURE)
    assert chosen.losses_survived >= 2 and chosen.zones_survived >= 1

    parts = store(world, chosen, epoch=7, kind="base", state=base)
    for epoch, delta in enumerate(deltas, start=8):
        parts += store(world, chosen, epoch=epoch, kind="delta", state=delta)
    raw = Manifest(APP, INSTANCE, 1, 9, tuple(parts)).pack()

    world.kill(*(it for it in world.holders if world.zones[it] == "zone-1"))
    manifest = unpack_manifest(raw)
    restored = [b"".join(world.retrieve(part) for part in whole) for whole in manifest.whole_parts()]
    assert restored == [base, *deltas]


def test_a_large_base_takes_several_slices_and_a_copy_fits_too():
    world = World(peers=4)
    state = bytes(range(256)) * 40_000
    chosen = plan(me=ME, candidates=world.candidates(), state_bytes=len(state), wanted=Strategy.COPIES)
    parts = store(world, chosen, epoch=1, kind="base", state=state)
    assert [it.kind for it in parts] == ["base", "more", "more"]
    world.kill(*chosen.holders[1:])
    assert b"".join(world.retrieve(part) for part in parts) == state
