"""What a register holds comes back as it was, and rubbish is told as such."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.generations.notes import INLINE_BYTES_MAX, Note, Part
from dataflow.generations.promise import Guarantee
from dataflow.generations.record import Phase, Record, unpack_record
from dataflow.hosting.assignment import InstanceId, Place, assigned
from overlay.contact import Contact
from overlay.ids import Key, PeerId
from overlay.wire import WireError

PEERS = [PeerId(Key(number)) for number in range(1, 6)]
counts = st.integers(0, 2**40)
parts = st.builds(Part, counts, counts, st.just(True), st.binary(max_size=INLINE_BYTES_MAX))
notes = st.builds(
    Note, st.lists(parts, max_size=3).map(tuple), st.none() | counts, st.none() | counts, is_final=st.booleans()
)
instances = st.builds(InstanceId, st.integers(-3, 9), st.integers(0, 4))


@st.composite
def records(draw):
    placed = draw(st.dictionaries(instances, st.sampled_from(PEERS), min_size=1, max_size=8))
    places = [Place(it, peer, draw(counts)) for it, peer in placed.items()]
    return Record(
        name=draw(st.text(max_size=20)),
        life=draw(st.integers(1, 9)),
        assignment=assigned("ab" * 32, draw(counts), places),
        contacts=tuple(Contact(peer, "127.0.0.1", 4000, zone="attic", boot_ms=7) for peer in PEERS),
        members=tuple(draw(st.permutations(PEERS)))[:3],
        secret=draw(st.binary(min_size=32, max_size=32)),
        guarantee=draw(st.sampled_from(Guarantee)),
        epoch_ms=draw(st.integers(50, 5000)),
        epoch=draw(counts),
        notes=draw(st.dictionaries(instances, notes, max_size=4)),
        homes=draw(st.dictionaries(instances, st.sampled_from(PEERS), max_size=3)),
        phase=draw(st.sampled_from(Phase)),
        reason=draw(st.text(max_size=30)),
    )


@given(records())
def test_a_record_comes_back_as_it_was(record):
    assert unpack_record(record.pack()) == record


@given(records(), st.data())
def test_a_damaged_record_is_told_as_such_or_is_another_record(record, data):
    raw = bytearray(record.pack())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(WireError):  # and no other exception
        unpack_record(bytes(raw))


def test_bytes_that_are_no_record_are_refused():
    with pytest.raises(WireError):
        unpack_record(b"nothing of the kind")
