"""Control is never blocked and never grows; data keeps its order and lets control through."""

from hypothesis import given
from hypothesis import strategies as st

from overlay.outbox import BATCH_BYTES, CONTROL_QUEUE_BYTES_MAX, Outbox


def drained(outbox: Outbox) -> list[bytes]:
    out: list[bytes] = []
    while buffers := outbox.next_buffers():
        out += [bytes(each) for each in buffers]
    return out


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=60), st.integers(1, 20))
def test_a_full_outbox_keeps_the_newest_and_counts_the_rest(frames, most):
    outbox = Outbox(control_frames_max=most)
    dropped = sum(outbox.put_control(frame) for frame in frames)
    assert dropped == max(0, len(frames) - most)
    assert drained(outbox) == frames[-most:]


def test_a_stopped_neighbour_costs_bounded_memory():
    outbox = Outbox()
    dropped = sum(outbox.put_control(bytes(64 * 1024)) for _ in range(100))
    assert dropped == 100 - CONTROL_QUEUE_BYTES_MAX // (64 * 1024)


def test_control_frames_go_together_but_not_all_at_once():
    outbox = Outbox()
    for _ in range(3):
        outbox.put_control(bytes(BATCH_BYTES // 2))
    assert [len(outbox.next_buffers()) for _ in range(3)] == [2, 1, 0]
    assert outbox.is_empty


def test_data_is_sent_in_order_with_control_in_between():
    outbox = Outbox()
    outbox.put_data(iter([[b"a1"], [b"a2"]]))
    outbox.put_data(iter([[b"b1"]]))
    assert not outbox.has_room_for_data
    assert outbox.next_buffers() == [b"a1"]
    outbox.put_control(b"ping")
    assert drained(outbox) == [b"ping", b"a2", b"b1"]
    assert outbox.has_room_for_data
