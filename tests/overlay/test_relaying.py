"""A frame crosses relays as it is, never for ever, and never makes one of them hold more than it may."""

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.frames import BODY_BYTES_MAX, HOPS_MAX, PIECE_BYTES, Frame, FrameReader, data_frame
from overlay.ids import Key, PeerId
from overlay.relaying import RELAYED_BYTES_MAX, Dropped, Here, Onward, Relay
from overlay.wire import WireError

FAR = PeerId(Key(999))


def sent(portions):
    """What a reader at the far end of a wire makes of it."""
    raw = b"".join(bytes(buffer) for portion in portions for buffer in portion)
    reader, frames, view = FrameReader(), [], memoryview(raw)
    while len(view):
        space = reader.space()
        taken = min(len(space), len(view))
        space[:taken] = view[:taken]
        view = view[taken:]
        frames += reader.advance(taken)
    (frame,) = frames
    return frame


def chain(length):
    """Relays 1, 2, 3, ... that hand on to each other; the last one is FAR."""
    ids = [*(PeerId(Key(at + 1)) for at in range(length)), FAR]
    following = dict(pairwise(ids))
    return [Relay({it}, next_hop=partial(lambda it, to: following.get(it), it)) for it in ids]


def damaged(frame):
    body = bytearray(frame.body)
    body[-1] ^= 1
    return Frame(frame.header, frame.control, memoryview(body))


@given(relays=st.integers(1, HOPS_MAX), body=st.binary(max_size=300) | st.just(bytes(3 * PIECE_BYTES + 1)))
def test_what_arrives_over_relays_is_what_was_sent(relays, body):
    sender = PeerId(Key(0))
    frame = sent(data_frame(FAR, sender, b"rows", [body], hops_left=relays))
    for relay in chain(relays)[:-1]:
        onward = relay.decide(frame)
        assert isinstance(onward, Onward)
        frame = sent(onward.portions)
    assert chain(relays)[-1].decide(frame) == Here()
    assert (frame.to, frame.sender, bytes(frame.content), bytes(frame.body)) == (FAR, sender, b"rows", body)
    assert frame.header.hops_left == 0
    frame.check_body()


def test_a_relay_does_not_open_what_it_hands_on_and_the_reader_sees_the_damage():
    frame = damaged(sent(data_frame(FAR, PeerId(Key(0)), b"rows", [b"body"], hops_left=1)))
    onward = chain(1)[0].decide(frame)
    assert isinstance(onward, Onward)
    with pytest.raises(WireError, match="damaged"):
        sent(onward.portions).check_body()


def test_a_frame_that_goes_in_circles_ends():
    one, two = PeerId(Key(1)), PeerId(Key(2))
    circle = [Relay({one}, next_hop=lambda to: two), Relay({two}, next_hop=lambda to: one)]
    frame = sent(data_frame(FAR, PeerId(Key(0)), b"rows", [b"body"], hops_left=HOPS_MAX))
    for hop in range(HOPS_MAX):
        onward = circle[hop % 2].decide(frame)
        assert isinstance(onward, Onward)
        frame = sent(onward.portions)
    assert circle[HOPS_MAX % 2].decide(frame) == Dropped("hops-used-up")


def test_a_frame_that_was_not_meant_for_relays_is_not_handed_on():
    frame = sent(data_frame(FAR, PeerId(Key(0)), b"rows", [b"body"]))
    assert chain(1)[0].decide(frame) == Dropped("hops-used-up")


def test_nobody_is_nearer_or_only_the_sender_is():
    frame = sent(data_frame(FAR, PeerId(Key(7)), b"rows", [b"body"], hops_left=3))
    assert Relay({PeerId(Key(1))}, next_hop=lambda to: None).decide(frame) == Dropped("no-way")
    assert Relay({PeerId(Key(1))}, next_hop=lambda to: PeerId(Key(7))).decide(frame) == Dropped("no-way")


def test_a_next_hop_that_takes_nothing_fills_its_own_room_and_no_other():
    ways = {FAR: PeerId(Key(2)), PeerId(Key(998)): PeerId(Key(3))}
    relay = Relay({PeerId(Key(1))}, next_hop=ways.get)
    half = BODY_BYTES_MAX // 2

    def decide(to):
        return relay.decide(sent(data_frame(to, PeerId(Key(0)), b"rows", [bytes(half)], hops_left=3)))

    held = []
    while isinstance(verdict := decide(FAR), Onward):
        held.append(verdict)
    assert verdict == Dropped("relay-full")
    total = sum(it.size_bytes for it in held)
    assert total <= RELAYED_BYTES_MAX < total + held[0].size_bytes
    assert isinstance(decide(PeerId(Key(998))), Onward)
    relay.on_sent(held[0])
    assert isinstance(decide(FAR), Onward)
