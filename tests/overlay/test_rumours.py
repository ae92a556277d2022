"""Laws of the queue of rumours: bounded, fair, and never with two stories about one peer."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.ids import Key, PeerId
from overlay.messages.probing import Rumour
from overlay.rumours import QUEUED_MAX, RumourQueue, times_to_tell


def rumour(peer: int, incarnation: int = 0, status: str = "suspect") -> Rumour:
    return Rumour(status, Contact(PeerId(Key(peer)), "h", 1), incarnation, ())


@given(st.lists(st.integers(0, 200), max_size=300))
def test_it_stays_bounded_and_holds_one_rumour_a_peer(about):
    queue = RumourQueue()
    for incarnation, peer in enumerate(about):
        queue.put(rumour(peer, incarnation))
    assert len(queue) == min(QUEUED_MAX, len(queue), len(set(about)))
    taken = queue.take(1000, times=1)
    assert len({it.contact.peer for it in taken}) == len(taken)
    newest = {peer: incarnation for incarnation, peer in enumerate(about)}
    assert all(it.incarnation == newest[it.contact.peer] for it in taken)


@given(st.integers(1, QUEUED_MAX), st.integers(1, 8), st.integers(1, 12))
def test_every_rumour_is_told_exactly_so_often(count, most, times):
    queue = RumourQueue()
    for peer in range(count):
        queue.put(rumour(peer))
    told: Counter[PeerId] = Counter()
    while queue:
        told.update(it.contact.peer for it in queue.take(most, times=times))
    assert told == {PeerId(Key(peer)): times for peer in range(count)}


@given(st.integers(2, 30), st.integers(1, 8), st.integers(1, 40))
def test_no_rumour_gets_more_than_one_telling_ahead(count, most, takes):
    queue = RumourQueue()
    for peer in range(count):
        queue.put(rumour(peer))
    told: Counter[int] = Counter(dict.fromkeys(range(count), 0))
    for _ in range(takes):
        told.update(it.contact.peer for it in queue.take(most, times=1000))
    assert max(told.values()) - min(told.values()) <= 1


def test_fresh_news_goes_first():
    queue = RumourQueue()
    queue.put(rumour(1))
    queue.take(1, times=10)
    queue.put(rumour(2))
    assert [it.contact.peer for it in queue.take(1, times=10)] == [2]


def test_a_new_story_about_a_peer_is_told_from_the_start():
    queue = RumourQueue()
    queue.put(rumour(1))
    queue.take(1, times=2)
    queue.put(rumour(1, 1, "alive"))
    assert [queue.take(1, times=2)[0].status for _ in range(2)] == ["alive", "alive"]
    assert queue.take(1, times=2) == ()


def test_when_it_is_full_the_most_told_makes_room():
    queue = RumourQueue()
    queue.put(rumour(0))
    queue.take(1, times=10)
    for peer in range(1, QUEUED_MAX + 1):
        queue.put(rumour(peer))
    assert 0 not in {it.contact.peer for it in queue.take(1000, times=10)}


def test_only_an_accusation_is_taken_back():
    queue = RumourQueue()
    queue.put(rumour(1))
    queue.put(rumour(2, 1, "alive"))
    queue.drop_suspect(PeerId(Key(1)))
    queue.drop_suspect(PeerId(Key(2)))
    queue.drop_suspect(PeerId(Key(3)))
    assert [it.contact.peer for it in queue.take(8, times=1)] == [2]


def test_a_larger_audience_is_told_more_often():
    assert [times_to_tell(n, multiplier=4) for n in (0, 1, 9, 20, 1000)] == [4, 4, 4, 8, 16]
