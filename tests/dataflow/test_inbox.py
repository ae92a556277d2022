"""What waits in an inbox is put together, and nothing overtakes anything that it may not overtake."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataflow.engine.threads import INBOX_MESSAGES_MAX, Inbox
from dataflow.messages import Data, Token, Watermark


def rows(*numbers):
    return Data(pa.record_batch({"n": pa.array(numbers, pa.int64())}))


def taken(inbox):
    """The next message, a batch as its numbers."""
    source, message = inbox.get()
    each = message.batch.column("n").to_pylist() if isinstance(message, Data) else [message]
    return [(source, one) for one in each]


def test_batches_wait_apart_and_leave_together_with_the_last_watermark_behind_them():
    inbox = Inbox(marked=[0])
    for message in (rows(1, 2), Watermark(2), rows(3), Watermark(3), Token(1), rows(4)):
        inbox.put((0, message))
    assert taken(inbox) == [(0, 1), (0, 2), (0, 3)]
    assert taken(inbox) + taken(inbox) + taken(inbox) == [(0, Watermark(3)), (0, Token(1)), (0, 4)]


def test_where_rows_are_not_marked_a_watermark_keeps_its_place():
    inbox = Inbox()
    for message in (rows(1), Watermark(1), rows(2)):
        inbox.put((0, message))
    assert taken(inbox) + taken(inbox) + taken(inbox) == [(0, 1), (0, Watermark(1)), (0, 2)]


moves = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["rows", "watermark", "token"])), max_size=INBOX_MESSAGES_MAX - 1
)


@given(moves, st.sets(st.integers(0, 1)))
def test_rows_keep_their_order_and_their_epoch_and_no_watermark_runs_ahead(steps, marked):
    inbox = Inbox(sorted(marked))
    for number, (source, what) in enumerate(steps):
        inbox.put((source, {"rows": rows(number), "watermark": Watermark(number), "token": Token(number)}[what]))
    inbox.put((2, Token(-1)))
    seen = taken(inbox)
    while seen[-1] != (2, Token(-1)):
        seen += taken(inbox)
    for source in (0, 1):
        mine = [one for at, one in seen if at == source]
        firm = [it for it in mine if not isinstance(it, Watermark)]
        assert firm == [
            Token(n) if what == "token" else n
            for n, (at, what) in enumerate(steps)
            if at == source and what != "watermark"
        ]
        last_watermark = -1
        for one in mine:
            if isinstance(one, Watermark):
                assert one.time_us > last_watermark
                last_watermark = one.time_us
            elif source not in marked:
                assert (one.epoch if isinstance(one, Token) else one) > last_watermark
        wanted = [n for n, (at, what) in enumerate(steps) if at == source and what == "watermark"]
        assert last_watermark == (wanted[-1] if wanted else -1)
