"""Lines of an app on one host: bounded, by position, and safe to print."""

import json

from hypothesis import given
from hypothesis import strategies as st

from dataflow.deploying.reasons import REASONS_BYTES_MAX, Reasons, Way, read_reasons
from dataflow.deploying.requests import REPORT_BYTES_MAX
from peer.app_events import APPS_MAX, EVENTS_MAX, Events


def read_all(events, app, position=0):
    """All sentences from a position on, page by page, as a follower reads them; and where it stands then."""
    found = []
    while True:
        page = events.page(app, position)
        assert len(json.dumps(page)) <= REPORT_BYTES_MAX
        found += [it["sentence"] for it in page["events"]]
        position = page["next"]
        if page["is_all"]:
            return found, position


def test_a_follower_reads_every_line_once_and_the_oldest_go_first():
    events = Events(lambda: 0.0)
    for number in range(EVENTS_MAX + 7):
        events.add("ab", "printed", f"line {number}")
    found, position = read_all(events, "ab")
    assert found == [f"line {number}" for number in range(7, EVENTS_MAX + 7)]
    assert events.page("ab", 0)["first"] == 7, "seven were missed"
    events.add("ab", "printed", "one more")
    assert read_all(events, "ab", position) == (["one more"], position + 1)


@given(st.lists(st.text(max_size=2000), max_size=40))
def test_whatever_is_printed_fits_an_answer_and_obeys_no_terminal(lines):
    events = Events(lambda: 0.0)
    for line in lines:
        events.add("ab", "printed", line)
    found, _ = read_all(events, "ab")
    assert all(it.isprintable() for it in found)


def test_only_so_many_apps_are_remembered():
    events = Events(lambda: 0.0)
    for number in range(APPS_MAX + 1):
        events.add(f"app {number}", "begun", "")
    assert events.page("app 0", 0)["events"] == []
    assert events.page(f"app {APPS_MAX}", 0)["events"]


@given(st.integers(0, 400), st.integers(0, 300), st.text(max_size=200))
def test_reasons_of_any_app_fit_a_charter_and_keep_what_they_can(places, ways, text):
    reasons = Reasons(
        {f"{number}.0": text for number in range(places)}, tuple(Way(text, "s", ("ab", "cd")) for _ in range(ways)), {}
    )
    packed = reasons.pack()
    assert len(packed) <= REASONS_BYTES_MAX
    found = read_reasons(packed)
    assert set(found.places) <= set(reasons.places)
    whole = json.dumps([dict(reasons.places), [[it.source, it.sink, list(it.hops)] for it in reasons.ways], {}])
    if len(whole) <= REASONS_BYTES_MAX:
        assert found == reasons


@given(st.text(max_size=50))
def test_reasons_that_are_none_are_empty(text):
    assert isinstance(read_reasons(text), Reasons)
