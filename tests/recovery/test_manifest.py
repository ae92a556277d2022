"""A manifest comes out as it went in, and nothing else does."""

from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from overlay.wire import WireError
from recovery.manifest import MANIFEST_BYTES_MAX, PARTS_MAX, Manifest, Part, unpack_manifest
from tests.overlay.rings import keys

digests = st.binary(min_size=32, max_size=32)


@st.composite
def manifests(draw):
    generation, epoch = draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 2**64 - 1))
    parts: list[Part] = []
    for number in range(draw(st.integers(0, 5))):
        holders = draw(st.lists(keys, min_size=1, max_size=6))
        parts.append(
            Part(
                generation,
                epoch,
                number,
                draw(st.sampled_from(["delta", "more"])) if parts else "base",
                draw(st.integers(0, 2**64 - 1)),
                draw(st.integers(1, len(holders))),
                draw(digests),
                tuple(PeerId(it) for it in holders),
                tuple(draw(digests) for _ in holders),
            )
        )
    return Manifest(draw(st.text(max_size=10)), draw(st.text(max_size=20)), generation, epoch, tuple(parts))


@given(manifests())
def test_there_and_back(manifest):
    assert unpack_manifest(manifest.pack()) == manifest
    assert unpack_manifest(manifest.pack()).digest() == manifest.digest()
    assert [part for whole in manifest.whole_parts() for part in whole] == list(manifest.parts)
    assert all(part.kind == "more" for whole in manifest.whole_parts() for part in whole[1:])


@given(st.binary(max_size=300))
def test_rubbish_is_a_wire_error(rubbish):
    with pytest.raises(WireError):
        unpack_manifest(rubbish)


@given(manifests(), st.data())
def test_a_changed_byte_never_does_worse_than_a_wire_error(manifest, data):
    raw = bytearray(manifest.pack())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        changed = unpack_manifest(raw)
    except WireError:
        return
    assert changed.digest() != manifest.digest()


def a_part(number=0, **changes):
    part = Part(1, 2, number, "delta" if number else "base", 100, 1, bytes(32), (PeerId(Key(1)),), (bytes(32),))
    return replace(part, **changes)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([a_part(), a_part()], "one part twice"),
        ([a_part(kind="delta")], "it begins with a delta, not with a base"),
        ([a_part(kind="more")], "it begins with a more"),
        ([a_part(), a_part(1, kind="base")], "two bases"),
        ([a_part(needed=0)], "0 of 1 fragments"),
        ([a_part(needed=2)], "2 of 1 fragments"),
        ([a_part(digests=())], "1 of 1 fragments with 0 digests"),
        ([a_part(epoch=4)], "later than the snapshot"),
        ([a_part(generation=2, epoch=1)], "later than the snapshot"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(parts, sentence):
    with pytest.raises(WireError, match=sentence):
        unpack_manifest(Manifest("app", "i", 1, 3, tuple(parts)).pack())


def test_size_is_limited_on_both_sides():
    with pytest.raises(WireError):
        Manifest("app", "i", 1, 3, tuple(a_part(it) for it in range(PARTS_MAX + 1))).pack()
    with pytest.raises(WireError):
        unpack_manifest(bytes(MANIFEST_BYTES_MAX + 1))
    with pytest.raises(WireError):
        unpack_manifest(msgpack.packb(["app", "i", 1, 3, [[0] * 9] * (PARTS_MAX + 1)]))
    largest = Manifest(
        "a" * 64,
        "i" * 128,
        2**64 - 1,
        2**64 - 1,
        tuple(a_part(it, holders=(PeerId(Key(it)),) * 64, digests=(bytes(32),) * 64) for it in range(PARTS_MAX)),
    )
    assert unpack_manifest(largest.pack()) == largest


def test_one_part_is_replaced_after_a_repair():
    manifest = Manifest("app", "i", 1, 3, (a_part(), a_part(1)))
    moved = a_part(1, holders=(PeerId(Key(9)),))
    assert manifest.with_part(moved).parts == (a_part(), moved)
    assert manifest.with_part(moved).holders() == [1, 9]
