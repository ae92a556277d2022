"""Virtual time: by the clock, and at equal times in the order of putting."""

from hypothesis import given
from hypothesis import strategies as st

from sim.heap import EventHeap


@given(st.lists(st.integers(0, 5)))
def test_events_come_by_time_and_then_in_the_order_they_were_put(times: list[int]):
    heap, seen = EventHeap(), []
    for number, at in enumerate(times):
        heap.put(float(at), lambda event, now: seen.append((now, event)), number)
    heap.run_to(10.0)
    assert seen == sorted((float(at), number) for number, at in enumerate(times))


def test_what_an_event_puts_for_the_past_happens_now():
    heap, seen = EventHeap(), []
    heap.put(3.0, lambda event, now: heap.put(1.0, lambda event, now: seen.append(now), None), None)
    heap.run_to(3.0)
    assert seen == [3.0]


def test_time_stops_where_it_was_told_to():
    heap, seen = EventHeap(), []
    heap.put(2.0, lambda event, now: seen.append(now), None)
    heap.run_to(1.5)
    assert (heap.now, seen, len(heap)) == (1.5, [], 1)
