"""Everybody knows soon, at one pair of messages a period.

`Crowd` is a tiny pump: real gossips on a heap of events. Every eighth message travels as bytes, to be sure
that all of them could; the others as they are, to be quick.
"""

from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import log2
from random import Random
from typing import Any

import pytest

from overlay.certificates import Authority
from overlay.contact import Contact
from overlay.denylist import NOBODY, Denylist, read_denylist, sign_denylist
from overlay.digest import Member
from overlay.effects import Later, Refused, Send
from overlay.gossip import DenylistChanged, Gossip, GossipSettings, GossipTick
from overlay.ids import PeerId, key_of
from overlay.messages.gossiping import (
    NEWS_MAX,
    OTHER_ZONES_MAX,
    ZONES_MAX,
    DenylistNews,
    Digests,
    DigestsReply,
    ZoneGist,
    ZoneWords,
)
from overlay.wire import CONTROL_BYTES_MAX, decode, encode

START = 1_800_000_000.0
KNOWN = 30
"""Contacts of each peer: it never sees the whole crowd."""
authority = Authority.create("attic", START, days=10, draw=Random(1).randbytes)
stranger = Authority.create("attic", START, days=10, draw=Random(2).randbytes)


def read(raw: bytes) -> Denylist:
    return read_denylist(raw, authority_public_key=authority.public_key)


def contact(number: int, zone: str = "") -> Contact:
    return Contact(PeerId(key_of(f"peer {number}")), "10.0.0.1", 4000 + number, zone=zone)


class Crowd:
    def __init__(self, peers: int, *, zones: int = 1, loss: float = 0.0, **settings):
        self.now = START
        self.rng = Random(1)
        self.loss = loss
        self.settings = GossipSettings(**settings)
        self.contacts = [contact(number, f"zone{number % zones}") for number in range(peers)]
        self.dead: set[PeerId] = set()
        self.sent = 0
        self.largest_bytes = 0
        self.refused: list[str] = []
        self.changes = 0
        self._heap: list[Any] = []
        self._order = count()
        self.gossips: dict[PeerId, Gossip] = {}
        for me in self.contacts:
            others = [it for it in self.contacts if it is not me]
            rng = Random(me.peer)
            gossip = Gossip(
                me,
                pick=partial(rng.choice, self.rng.sample(others, min(KNOWN, len(others)))),
                read_denylist=read,
                rng=rng,
                settings=self.settings,
            )
            gossip.report(slots=8, slots_used=3, is_scheduler=False)
            self.gossips[me.peer] = gossip
            self.carry_out(me, gossip.start(self.now))

    def carry_out(self, me: Contact, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.sent += 1
                    if self.sent % 8 == 0:
                        raw = encode(message)
                        self.largest_bytes = max(self.largest_bytes, len(raw))
                        message = decode(raw)
                    if self.rng.random() >= self.loss:
                        self._push(self.now + self.rng.uniform(0.01, 0.2), to, (me, message))
                case Later(at, event):
                    self._push(at, me, event)
                case DenylistChanged():
                    self.changes += 1
                case Refused(_, reason):
                    self.refused.append(reason)

    def _push(self, at: float, to: Contact, what: object) -> None:
        heappush(self._heap, (at, next(self._order), to, what))

    def run(self, periods: float) -> None:
        until = self.now + periods * self.settings.period_s
        while self._heap and self._heap[0][0] <= until:
            self.now, _, me, what = heappop(self._heap)
            if me.peer in self.dead:
                continue
            gossip = self.gossips[me.peer]
            if isinstance(what, tuple):
                self.carry_out(me, gossip.receive(what[0], what[1], self.now))
            else:
                self.carry_out(me, gossip.wake(what, self.now))
        self.now = until

    def live(self) -> list[Gossip]:
        return [gossip for peer, gossip in self.gossips.items() if peer not in self.dead]


def test_256_peers_all_know_the_one_scheduler_after_a_few_rounds():
    crowd = Crowd(256, zones=4)
    crowd.run(12)
    chosen = crowd.contacts[77]
    crowd.gossips[chosen.peer].report(slots=8, slots_used=3, is_scheduler=True)
    rounds = 0
    while not all(chosen.peer in it.totals(crowd.now)[chosen.zone].schedulers for it in crowd.live()):
        crowd.run(1)
        rounds += 1
        assert rounds <= log2(256) + 4, "news must spread in O(log N) rounds"


@pytest.mark.parametrize("peers", [16, 64, 256])
def test_rounds_grow_like_the_logarithm(peers):
    crowd = Crowd(peers)
    crowd.gossips[crowd.contacts[0].peer].deny(sign_denylist(authority, [7], version=1))
    rounds = 0
    while any(it.denylist.version == 0 for it in crowd.live()):
        crowd.run(1)
        rounds += 1
    assert rounds <= log2(peers) + 4


def test_small_zones_are_known_exactly_by_everybody():
    crowd = Crowd(60, zones=3)
    crowd.run(12)
    for gossip in crowd.live():
        totals = gossip.totals(crowd.now)
        assert {zone: (it.peers, it.slots, it.slots_used) for zone, it in totals.items()} == {
            f"zone{number}": (20.0, 160.0, 60.0) for number in range(3)
        }


def test_a_third_of_the_messages_is_lost_and_all_is_known_all_the_same():
    crowd = Crowd(60, zones=3, loss=0.33)
    crowd.run(20)
    assert all(it.totals(crowd.now)["zone1"].peers == 20 for it in crowd.live())


def test_a_dead_peer_is_forgotten_everywhere_and_a_living_one_never():
    crowd = Crowd(24, silence_s=60.0, renew_s=10.0)
    crowd.run(10)
    crowd.dead = {it.peer for it in crowd.contacts[:4]}
    crowd.run((60 + 5) / 5 + 1)
    assert {it.totals(crowd.now)["zone0"].peers for it in crowd.live()} == {20.0}
    crowd.run(40)
    assert {it.totals(crowd.now)["zone0"].peers for it in crowd.live()} == {20.0}


def test_one_pair_of_messages_a_period_for_each_peer():
    crowd = Crowd(50)
    crowd.run(100)
    assert crowd.sent == pytest.approx(50 * 100 * 2, rel=0.02)


def test_a_quiet_crowd_hardly_repeats_itself():
    crowd = Crowd(24, renew_s=1e6, silence_s=1e7)
    crowd.run(12)
    words = [len(zone.words) for gossip in crowd.live() for zone in questions(gossip, crowd.now)]
    assert words == [1] * 24, "each says only its own word"


def questions(gossip: Gossip, now: float) -> tuple[ZoneGist, ...]:
    (message,) = [it.message for it in gossip.wake(GossipTick(), now) if isinstance(it, Send)]
    assert isinstance(message, Digests)
    return message.zones


def test_a_peer_whose_clock_is_an_hour_off_is_neither_forgotten_nor_kept_for_ever():
    ours, theirs = START, START + 3600.0
    gossip = Gossip(contact(1), pick=lambda: None, read_denylist=read, rng=Random(1))
    word = Member(contact(2).peer, 4, 1, False, 1, theirs - 100.0)
    gossip.receive(contact(2), DigestsReply(0, theirs, (ZoneWords("far", (word,)),)), ours)
    assert "far" in gossip.totals(ours + 79.0)
    assert "far" not in gossip.totals(ours + 81.0)


def test_a_zone_without_an_answer_costs_nothing_but_the_question():
    lonely = Gossip(contact(1), pick=lambda: None, read_denylist=read, rng=Random(1))
    (tick,) = lonely.start(START)
    assert all(isinstance(it, Later) for it in lonely.wake(tick.event, tick.at))
    assert lonely.totals(tick.at)[""].peers == 1


def test_forty_zones_take_turns_in_messages_that_fit():
    crowd = Crowd(120, zones=40)
    crowd.run(25)
    for gossip in crowd.live():
        assert [it.peers for it in gossip.totals(crowd.now).values()] == [3.0] * 40
    assert crowd.largest_bytes <= CONTROL_BYTES_MAX / 2


def test_the_largest_message_there_is_fits_a_frame_with_room():
    largest = 1 << 63
    members = tuple(
        Member(contact(number).peer, 65_535, 65_535, True, largest, 1e5) for number in range(41)
    )
    numbers = (largest,) * len(members)
    gist = ZoneGist("z" * 64, numbers, numbers, members[:NEWS_MAX])
    for full in (
        Digests(largest, START, (gist,) * ZONES_MAX, ("z" * 64,) * OTHER_ZONES_MAX),
        DigestsReply(largest, START, (ZoneWords("z" * 64, members),) * ZONES_MAX),
    ):
        assert len(encode(full)) < 0.6 * CONTROL_BYTES_MAX


# The denylist


def test_everybody_hears_of_a_stolen_device():
    crowd = Crowd(64)
    newest = sign_denylist(authority, [7, 8], version=2)
    crowd.gossips[crowd.contacts[3].peer].deny(sign_denylist(authority, [7], version=1))
    crowd.gossips[crowd.contacts[9].peer].deny(newest)
    crowd.run(12)
    assert all(it.denylist == newest for it in crowd.live())
    assert not crowd.refused


def test_once_all_have_the_list_only_its_version_travels():
    crowd = Crowd(16)
    for gossip in crowd.live():
        gossip.deny(sign_denylist(authority, range(1, 4097), version=3))
    crowd.run(20)
    assert 0 < crowd.largest_bytes < 4096
    assert crowd.changes == 0


def test_an_old_list_replayed_brings_nobody_back():
    gossip = Gossip(contact(1), pick=lambda: None, read_denylist=read, rng=Random(1))
    old, new = (sign_denylist(authority, serials, version=len(serials)) for serials in ([7], [7, 8]))
    assert gossip.receive(contact(2), DenylistNews(new.raw), START) == [DenylistChanged(new)]
    assert gossip.receive(contact(2), DenylistNews(old.raw), START) == []
    assert gossip.receive(contact(2), DenylistNews(b""), START) == []
    assert gossip.denylist == new


def test_a_forged_list_is_refused_with_its_reason():
    gossip = Gossip(contact(1), pick=lambda: None, read_denylist=read, rng=Random(1))
    forged = sign_denylist(stranger, [7], version=9)
    liar = contact(2)
    assert gossip.receive(liar, DenylistNews(forged.raw), START) == [Refused(liar.peer, "forged")]
    assert gossip.denylist is NOBODY


def test_who_has_an_older_list_is_sent_ours_and_who_has_a_newer_is_not():
    ours = sign_denylist(authority, [7], version=5)
    gossip = Gossip(contact(1), pick=lambda: None, read_denylist=read, rng=Random(1), denylist=ours)
    other = contact(2)
    ours_sent = Send(other, DenylistNews(ours.raw))
    assert ours_sent in gossip.receive(other, Digests(4, START, (), ()), START)
    assert gossip.receive(other, DigestsReply(4, START, ()), START) == [ours_sent]
    assert gossip.receive(other, DigestsReply(6, START, ()), START) == []


# Lies, bounded


def test_a_lie_about_us_is_outbid_by_our_next_word():
    me, liar = contact(1), contact(2)
    gossip = Gossip(me, pick=lambda: liar, read_denylist=read, rng=Random(1))
    gossip.report(slots=8, slots_used=3, is_scheduler=False)
    lie = Member(me.peer, 0, 0, True, 1 << 60, START)
    gossip.receive(liar, DigestsReply(0, START, (ZoneWords("", (lie,)),)), START)
    (tick,) = gossip.start(START)
    _, send = gossip.wake(tick.event, tick.at)
    (word,) = send.message.zones[0].words
    assert word.version > lie.version
    assert (word.slots, word.is_scheduler) == (8, False)


def test_invented_zones_do_not_fill_the_memory_nor_push_out_our_own():
    me, liar = contact(1, "home"), contact(2)
    few = GossipSettings(zones_max=20)
    gossip = Gossip(me, pick=lambda: None, read_denylist=read, rng=Random(1), settings=few)
    (tick,) = gossip.start(START)
    gossip.wake(tick.event, START)
    for number in range(500):
        word = Member(contact(number + 10).peer, 1, 0, False, 1, START)
        gossip.receive(liar, DigestsReply(0, START, (ZoneWords(f"fake{number}", (word,)),)), START)
    assert len(gossip.totals(START + 6)) == 20
    assert gossip.totals(START + 6)["home"].peers == 1
