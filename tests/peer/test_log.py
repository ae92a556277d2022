"""One event, one line."""

import io
import json

from overlay.contact import Contact
from overlay.effects import Arrived, Confirmed, Departed, Joined, LeavesChanged, Refused, Suspected, Trusted
from overlay.ids import Key, PeerId, from_hex
from overlay.links import LinkDown, LinkMember, LinkRefused, LinkUp
from peer.log import FLOOD_PAUSE_S, Log

ME = PeerId(from_hex("77" * 20))
LAMP = Contact(PeerId(from_hex("ab12cd34" + "0" * 32)), "127.0.0.1", 4001, zone="attic")


def lines(*effects, form="text", times=None):
    stream, clock = io.StringIO(), iter(times or [0.0] * 99)
    log = Log(stream, form=form, clock=lambda: next(clock))
    for effect in effects:
        log.on_effect(ME, effect)
    return stream.getvalue().splitlines()


def test_every_event_is_one_readable_line():
    told = lines(
        Joined(7),
        Suspected(LAMP, 2),
        Trusted(LAMP),
        Confirmed(LAMP, (ME,)),
        Departed(LAMP),
        LeavesChanged((LAMP,), (ME,)),
        Refused(LAMP.peer, "forged"),
        LinkRefused("192.0.2.1:7", False, "foreign-ca", ""),
        LinkRefused("192.0.2.1:7", True, "refused", "nobody listens"),
    )
    assert [line.partition(" ")[2] for line in told] == [
        "joined the ring, 7 peers known",
        "peer ab12cd34 suspected by 2 witnesses, at 127.0.0.1:4001 in attic",
        "peer ab12cd34 is alive after all, at 127.0.0.1:4001 in attic",
        "peer ab12cd34 is dead, at 127.0.0.1:4001 in attic",
        "peer ab12cd34 left, at 127.0.0.1:4001 in attic",
        "leaf set +ab12cd34 -77777777",
        "refused forged from ab12cd34",
        "refused a connection from 192.0.2.1:7: foreign-ca",
        "cannot reach 192.0.2.1:7: refused, nobody listens",
    ]


def test_links_are_told_by_the_device_that_is_at_their_end():
    other = Contact(ME, "127.0.0.1", 4001, zone="attic")
    told = lines(
        LinkUp((LAMP,), is_dialled=True, is_member=True),
        LinkUp((other, LAMP), is_dialled=False, is_member=False),
        LinkMember((LAMP,), is_member=True),
        LinkMember((other,), is_member=False),
        LinkDown((LAMP,), "goodbye"),
        LinkDown((other,), "closed"),
    )
    assert [line.partition(" ")[2] for line in told] == [
        "connected to peer ab12cd34, at 127.0.0.1:4001 in attic",
        "peer 77777777 and 1 more of its device connected to us, at 127.0.0.1:4001 in attic",
        "peer ab12cd34 is in the ring now, at 127.0.0.1:4001 in attic",
        "peer 77777777 is out of the ring now, at 127.0.0.1:4001 in attic",
        "disconnected from peer ab12cd34 in good order, at 127.0.0.1:4001 in attic",
        "disconnected from peer 77777777: closed, at 127.0.0.1:4001 in attic",
    ]


def test_a_device_that_comes_and_goes_is_a_line_now_and_then_and_hides_no_other():
    other = Contact(ME, "127.0.0.1", 4002)
    flapping = [LinkDown((LAMP,), "closed"), LinkUp((LAMP,), is_dialled=True, is_member=True)] * 5
    told = lines(*flapping, LinkDown((other,), "closed"))
    assert len(told) == 3
    assert "disconnected from peer 77777777" in told[2]


def test_json_lines_carry_the_facts():
    [line] = lines(Suspected(LAMP, 2), form="json", times=[1.2345])
    assert json.loads(line) == {
        "at": 1.234,
        "me": "77" * 20,
        "event": "suspected",
        "peer": "ab12cd34" + "0" * 32,
        "address": "127.0.0.1:4001",
        "zone": "attic",
        "witnesses": 2,
    }


def test_what_happens_with_every_message_is_not_written():
    assert lines(Arrived(Key(1), "probe", b"", LAMP, ())) == []


def test_a_flood_of_refusals_is_a_line_now_and_then():
    flood = [Refused(LAMP.peer, "forged")] * 4
    times = [0.0, 0.0, 1.0, 2.0, FLOOD_PAUSE_S, FLOOD_PAUSE_S]
    told = [line.partition(" ")[2] for line in lines(*flood, times=times)]
    assert told == ["refused forged from ab12cd34", "refused forged from ab12cd34 (and 2 more)"]
