"""Any cutting of the stream gives the same frames; any damage gives WireError, never more memory."""

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.frames import (
    BODY_BYTES_MAX,
    CONTROL_PART_BYTES_MAX,
    ENVELOPE_BYTES,
    FLAG_CUT,
    HEADER_BYTES,
    PIECE_BYTES,
    Buffer,
    Frame,
    FrameKind,
    FrameReader,
    Header,
    control_frame,
    data_frame,
    pack_header,
    parse_header,
    relayed_frame,
)
from overlay.ids import Key, PeerId
from overlay.wire import WireError

ALICE, BOB = PeerId(Key(0xA11CE)), PeerId(Key(0xB0B))

bodies = st.lists(st.binary(max_size=200), max_size=4)
parcels = st.one_of(
    st.tuples(st.just("control"), st.binary(max_size=300)),
    st.tuples(st.just("data"), st.binary(max_size=100), bodies),
    st.tuples(st.just("large"), st.binary(max_size=9), st.integers(PIECE_BYTES - 2, PIECE_BYTES + 2)),
)


def portions_of(parcel) -> list[list[Buffer]]:
    kind, content, *rest = parcel
    if kind == "control":
        return [[control_frame(BOB, ALICE, content)]]
    body = rest[0] if kind == "data" else [b"x" * rest[0], b"yz"]
    return list(data_frame(BOB, ALICE, content, body))


def joined(portions) -> bytes:
    return b"".join(bytes(buffer) for portion in portions for buffer in portion)


def read_all(raw: bytes, cuts=(), reader: FrameReader | None = None) -> list[Frame]:
    """Feed `raw` in the given cuts (then all the rest at once), as a socket would."""
    reader = reader or FrameReader()
    frames: list[Frame] = []
    edges = iter(cuts)
    at = 0
    while at < len(raw):
        space = reader.space()
        assert len(space) > 0
        taken = min(next(edges, len(raw)), len(space), len(raw) - at)
        space[:taken] = raw[at : at + taken]
        at += taken
        frames += reader.advance(taken)
    return frames


def facts(frames):
    return [(it.header.kind, it.to, it.sender, bytes(it.content), bytes(it.body)) for it in frames]


@given(st.lists(parcels, max_size=5), st.lists(st.integers(1, 5000), max_size=50))
def test_any_cutting_of_the_stream_gives_the_same_frames(parcels, cuts):
    raw = joined(portion for parcel in parcels for portion in portions_of(parcel))
    assert facts(read_all(raw, cuts)) == facts(read_all(raw))
    assert len(read_all(raw)) == len(parcels)


@given(st.binary(max_size=50), bodies)
def test_what_is_sent_is_what_is_received(content, body):
    (frame,) = read_all(joined(data_frame(BOB, ALICE, content, body)))
    frame.check_body()
    assert (frame.to, frame.sender) == (BOB, ALICE)
    assert bytes(frame.content) == content
    assert bytes(frame.body) == b"".join(body)


def test_a_ping_overtakes_a_large_body():
    body = bytes(range(256)) * 4096
    start, first, *rest = data_frame(BOB, ALICE, b"batch", [body])
    ping = control_frame(BOB, ALICE, b"ping")
    frames = read_all(joined([start, first, [ping], *rest]))
    assert [it.header.kind for it in frames] == [FrameKind.CONTROL, FrameKind.DATA]
    frames[1].check_body()
    assert frames[1].body == body


def test_a_relay_hands_on_what_it_got_without_opening_it():
    body = [b"a" * PIECE_BYTES, b"b" * 7]
    (frame,) = read_all(joined(data_frame(BOB, ALICE, b"batch", body, hops_left=2)))
    assert joined(relayed_frame(frame)) == joined(data_frame(BOB, ALICE, b"batch", body, hops_left=1))


def test_buffers_are_passed_on_and_not_copied():
    body = bytearray(10)
    ((_, view),) = data_frame(BOB, ALICE, b"", [body])
    body[0] = 7
    assert view[0] == 7


def test_a_frame_keeps_its_bytes_when_the_next_one_comes():
    reader = FrameReader()
    (first,) = read_all(joined(data_frame(BOB, ALICE, b"1", [b"first"])), reader=reader)
    read_all(joined(data_frame(BOB, ALICE, b"2", [b"other"])), reader=reader)
    assert bytes(first.body) == b"first"
    assert bytes(first.content) == b"1"


def test_a_damaged_body_is_noticed_by_its_last_reader():
    raw = bytearray(joined(data_frame(BOB, ALICE, b"", [b"precious"])))
    raw[-1] ^= 1
    (frame,) = read_all(bytes(raw))
    with pytest.raises(WireError, match="bad-crc"):
        frame.check_body()


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
@example(pack_header(Header(FrameKind.DATA, FLAG_CUT, ENVELOPE_BYTES, BODY_BYTES_MAX)))
def test_any_header_is_a_header_within_limits_or_a_wire_error(raw):
    try:
        header = parse_header(raw)
    except WireError:
        return
    assert header.control_bytes <= CONTROL_PART_BYTES_MAX
    assert header.body_bytes <= BODY_BYTES_MAX
    assert pack_header(header) == raw


@given(parcels, st.data())
def test_any_mutated_stream_gives_frames_or_a_wire_error(parcel, data):
    raw = bytearray(joined(portions_of(parcel)))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, min(len(raw), 100) - 1))] = data.draw(st.integers(0, 255))
    try:
        frames = read_all(bytes(raw))
    except WireError as error:
        assert error.reason in ("not-a-frame", "version", "unknown-frame", "bad-frame", "oversize")
    else:
        assert sum(len(it.control) + len(it.body) for it in frames) <= len(raw)


@pytest.mark.parametrize("control_bytes, body_bytes", [(2**32 - 1, 0), (ENVELOPE_BYTES, 2**32 - 1)])
def test_an_oversize_frame_is_refused_from_its_header_alone(control_bytes, body_bytes):
    raw = bytearray(pack_header(Header(FrameKind.DATA, 0, ENVELOPE_BYTES, 0)))
    raw[4:12] = control_bytes.to_bytes(4, "big") + body_bytes.to_bytes(4, "big")
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="oversize"):
            read_all(bytes(raw))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_stranger_may_not_announce_a_body():
    with pytest.raises(WireError, match="oversize"):
        read_all(joined(data_frame(BOB, ALICE, b"", [b"body"])), reader=FrameReader(body_bytes_max=0))


def test_a_body_beyond_the_limit_is_not_even_sent():
    half = bytes(BODY_BYTES_MAX // 2 + 1)
    with pytest.raises(WireError, match="oversize"):
        data_frame(BOB, ALICE, b"", [half, half])


def test_pieces_must_fit_the_body_that_was_announced():
    piece = pack_header(Header(FrameKind.PIECE, 0, 0, 3)) + b"abc"
    with pytest.raises(WireError, match="a piece of no body"):
        read_all(piece)
    start = pack_header(Header(FrameKind.DATA, FLAG_CUT, ENVELOPE_BYTES, 4)) + bytes(ENVELOPE_BYTES)
    with pytest.raises(WireError, match="where 1 are missing"):
        read_all(start + piece + piece)
    with pytest.raises(WireError, match="before the first one ended"):
        read_all(start + piece + start)
