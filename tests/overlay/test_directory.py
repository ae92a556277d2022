"""Records are where they should be, whoever crashes, comes or goes; and nothing false is ever believed.

`Ring` is a tiny pump: real directories, real certificates, real bytes on a heap of events. A crashed peer
stays in everybody's view until `confirm`, as it would until the others' suspicion has run its course.
"""

from collections import Counter
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

import pytest

from overlay.certificates import Authority, read_credential, to_der
from overlay.contact import Contact
from overlay.directory import Directory, DirectorySettings, Listing, Renewed, Stored
from overlay.effects import Answer, Later, Refused, Send
from overlay.ids import Key, PeerId
from overlay.messages.storing import Fetch, FetchReply, Store
from overlay.records import TTL_S_MAX, Record, RecordCheck, draft, record_key, sign_record
from overlay.signing import Signer
from overlay.wire import decode, encode

START = 1_800_000_000.0
KEY = record_key("source", "light")
authority = Authority.create("attic", START, days=3650, draw=Random(1).randbytes)
stranger = Authority.create("attic", START, days=3650, draw=Random(2).randbytes)


class Holder:
    """One peer of the ring: who it is, what it may sign, and its directory."""

    def __init__(self, ring: "Ring", number: int, *, role: str = "device", ca: Authority = authority):
        issued = ca.issue(f"p{number}", role, START, days=30, draw=Random(f"{number}{role}").randbytes)
        self.certificate = to_der(issued.certificate_pem)
        self.signer = Signer.load(issued.key_pem)
        peers = read_credential(self.certificate, authority_certificate=ca.certificate, now=START).peers
        self.contact = Contact(peers[0], "10.0.0.1", 4000 + number)
        self.peer = peers[0]
        self.check = RecordCheck(authority.certificate)
        self.directory = self.new_directory(ring, seed=number)

    def new_directory(self, ring: "Ring", *, seed: int = 0) -> Directory:
        return Directory(
            self.contact,
            nearest=lambda key, most: ring.nearest(self, key, most),
            check=lambda record, now: self.check(record, now),
            sign=self.sign,
            nonce=ring.nonces.__next__,
            rng=Random(seed),
            settings=ring.settings,
        )

    def sign(self, record: Record) -> Record:
        return sign_record(record, signer=self.signer, certificate=self.certificate)

    def record(self, ring: "Ring", *, kind: str = "source", name: str = "light", **changes) -> Record:
        blank = draft(kind, name, publisher=self.peer, value=b"lumen", now=ring.now, ttl_s=60.0)
        return self.sign(replace(blank, **changes))


class Ring:
    def __init__(self, peers: int, *, loss: float = 0.0, seed: int = 1, **settings):
        self.now = START
        self.settings = DirectorySettings(**{"copies": 4, **settings})
        self.nonces = count(1)
        self.holders: dict[PeerId, Holder] = {}
        self.view: dict[PeerId, Contact] = {}
        self.crashed: set[PeerId] = set()
        self.loss = loss
        self.rng = Random(seed)
        self.refused: Counter[str] = Counter()
        self.renewed: list[Renewed] = []
        self.sent = 0
        self._answers: dict[int, object] = {}
        self._heap: list[Any] = []
        self._order = count()
        self._requests = count(1)
        for number in range(peers):
            self.admit(Holder(self, number))

    def nearest(self, asker: Holder, key: Key, most: int) -> list[Contact]:
        others = [it for it in self.view.values() if it.peer != asker.peer]
        return sorted(others, key=lambda it: it.peer ^ key)[:most]

    def at(self, key: Key) -> list[Holder]:
        """All live peers, nearest to the key first."""
        live = [it for it in self.holders.values() if it.peer not in self.crashed]
        return sorted(live, key=lambda it: it.peer ^ key)

    def admit(self, holder: Holder) -> Holder:
        self.holders[holder.peer] = holder
        self.view[holder.peer] = holder.contact
        return holder

    def join(self, holder: Holder) -> Holder:
        self.admit(holder)
        for other in list(self.holders.values()):
            if other is not holder:
                self.carry_out(other, other.directory.leaves_changed([holder.contact], [], self.now))
        return holder

    def restart(self, holder: Holder, *, after_s: float = 0.0) -> Holder:
        """The same peer, a later life, another address, nothing in its memory; the others see that at once."""
        self.run(after_s)
        boot_ms = holder.contact.boot_ms + 1
        holder.contact = Contact(holder.peer, "10.0.0.2", 5000 + boot_ms, boot_ms=boot_ms)
        holder.directory = holder.new_directory(self)
        return self.join(holder)

    def crash(self, holder: Holder) -> None:
        self.crashed.add(holder.peer)

    def confirm(self, *dead: Holder) -> None:
        """Everybody learns that these are gone."""
        for holder in dead:
            self.crashed.add(holder.peer)
            self.view.pop(holder.peer, None)
        for other in self.holders.values():
            if other.peer not in self.crashed:
                lost = [holder.peer for holder in dead]
                self.carry_out(other, other.directory.leaves_changed([], lost, self.now))

    def leave(self, holder: Holder) -> None:
        self.view.pop(holder.peer)
        self.carry_out(holder, holder.directory.leave(self.now))
        self.run(1.0)
        self.confirm(holder)

    def carry_out(self, holder: Holder, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.sent += 1
                    if self.rng.random() >= self.loss:
                        arrival = self.now + self.rng.uniform(0.01, 0.1)
                        self._push(arrival, to.peer, (holder.contact, to, encode(message)))
                case Later(at, event):
                    self._push(at, holder.peer, event)
                case Answer(request, result):
                    assert request not in self._answers, "answered twice"
                    self._answers[request] = result
                case Refused(_, reason):
                    self.refused[reason] += 1
                case Renewed():
                    self.renewed.append(effect)
                case _:
                    raise AssertionError(effect)

    def _push(self, at: float, peer: PeerId, what: object) -> None:
        heappush(self._heap, (at, next(self._order), peer, what))

    def step(self) -> None:
        self.now, _, peer, what = heappop(self._heap)
        if peer in self.crashed:
            return
        holder = self.holders[peer]
        if isinstance(what, tuple):
            sender, to, raw = what
            if holder.contact.supersedes(to):
                return  # the address of an earlier life
            self.carry_out(holder, holder.directory.receive(sender, decode(raw), self.now))
        else:
            self.carry_out(holder, holder.directory.wake(what, self.now))

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while self._heap and self._heap[0][0] <= until:
            self.step()
        self.now = until

    def ask(self, holder: Holder, method, *args, **options) -> Any:
        request = next(self._requests)
        self.carry_out(holder, method(*args, request, self.now, **options))
        while request not in self._answers:
            assert self._heap, "no answer, and nothing will happen any more"
            self.step()
        return self._answers[request]

    def publish(self, holder: Holder, name: str = "light", value: bytes = b"lumen", **options) -> Stored:
        stored: Stored = self.ask(holder, holder.directory.publish, "source", name, value, **options)
        return stored

    def get(self, holder: Holder, key: Key = KEY) -> Listing:
        listing: Listing = self.ask(holder, holder.directory.get, key)
        return listing

    def copies(self, key: Key = KEY) -> list[bool]:
        """Which of the live peers hold something under the key, nearest first."""
        return [any(it.key == key for it in holder.directory.held(self.now)) for holder in self.at(key)]

    def offer(self, sender: Holder, holder: Holder, record: Record, *, is_hand_over: bool = False) -> None:
        """Send a record straight to one peer, as somebody with bad intentions would."""
        store = Store(next(self.nonces), is_hand_over, (record,))
        self.carry_out(holder, holder.directory.receive(sender.contact, store, self.now))


def test_a_record_is_kept_by_the_nearest_peers_and_found_from_everywhere():
    ring = Ring(20)
    far = ring.at(KEY)[-1]
    assert ring.publish(far) == Stored(copies=4, wanted=4, refused={})
    assert ring.copies() == [True] * 4 + [False] * 16
    for holder in ring.at(KEY):
        assert [it.value for it in ring.get(holder).records] == [b"lumen"]
    assert not ring.refused


def test_two_publishers_of_one_name_are_both_found():
    ring = Ring(12)
    first, second = ring.at(KEY)[5:7]
    ring.publish(first, value=b"one")
    ring.publish(second, value=b"two")
    found = {it.publisher: it.value for it in ring.get(first).records}
    assert found == {first.peer: b"one", second.peer: b"two"}


def test_a_peer_alone_keeps_its_own_record():
    ring = Ring(1)
    (alone,) = ring.at(KEY)
    assert ring.publish(alone) == Stored(copies=1, wanted=1, refused={})
    assert len(ring.get(alone).records) == 1


def test_stored_nowhere_is_a_failure_and_is_tried_again():
    ring = Ring(12, copies=2)
    *others, publisher = ring.at(KEY)
    for holder in others:
        ring.crash(holder)
    stored = ring.publish(publisher)
    assert not stored.is_stored
    assert stored.refused == {"too-far": 1}
    ring.crashed.clear()
    ring.run(ring.settings.retry_s + 5)
    assert ring.copies()[:3] == [True, True, False]
    assert [it.stored.copies for it in ring.renewed] == [2]


def test_nobody_answering_is_not_the_same_as_nothing_offered():
    ring = Ring(6)
    asker, *others = ring.at(KEY)
    assert ring.get(asker) == Listing((), holders=4)
    for holder in others:
        ring.crash(holder)
    assert ring.get(asker) == Listing((), holders=0)


def test_one_message_in_five_is_lost_and_all_is_found():
    ring = Ring(20, loss=0.2, seed=5)
    far = ring.at(KEY)[-1]
    assert ring.publish(far).copies >= 3
    assert len(ring.get(ring.at(KEY)[10]).records) == 1


def test_a_holder_crashes_and_another_takes_its_place():
    ring = Ring(20)
    ring.publish(ring.at(KEY)[-1])
    ring.crash(ring.at(KEY)[0])
    assert len(ring.get(ring.at(KEY)[9]).records) == 1
    dead = [ring.holders[peer] for peer in ring.crashed]
    ring.confirm(*dead)
    ring.run(5)
    assert ring.copies()[:5] == [True] * 4 + [False]


def test_all_holders_but_one_crash_at_once_and_its_copies_are_made_again():
    ring = Ring(20)
    ring.publish(ring.at(KEY)[-1])
    ring.confirm(*ring.at(KEY)[1:4])
    ring.run(5)
    assert ring.copies()[:5] == [True] * 4 + [False]


def test_a_peer_joins_next_to_a_key_and_is_given_its_records():
    ring = Ring(12)
    publisher = ring.at(KEY)[-1]
    ring.publish(publisher)
    newcomers = [ring.join(Holder(ring, number)) for number in range(100, 112)]
    ring.run(10)
    assert ring.copies()[:4] == [True] * 4
    assert any(holder in newcomers for holder in ring.at(KEY)[:4]), "the story needs one who came near"
    assert not ring.refused


def test_a_lone_holder_hands_over_to_a_nearer_peer():
    ring = Ring(2, copies=1)
    ring.publish(ring.at(KEY)[0])
    for number in range(100, 110):
        ring.join(Holder(ring, number))
    ring.run(10)
    assert ring.copies()[0]


def test_a_peer_leaves_and_hands_everything_on():
    ring = Ring(20)
    names = [f"light-{number}" for number in range(30)]
    publisher = ring.at(KEY)[-1]
    for name in names:
        ring.publish(publisher, name)
    for _ in range(8):
        leaver = next(it for it in ring.at(KEY) if it is not publisher)
        ring.leave(leaver)
        ring.run(3)
    for name in names:
        assert ring.copies(record_key("source", name))[:4] == [True] * 4


def test_the_only_holder_leaves_and_its_record_stays():
    ring = Ring(6, copies=1)
    publisher = ring.at(KEY)[-1]
    ring.publish(publisher)
    ring.leave(ring.at(KEY)[0])
    assert len(ring.get(publisher).records) == 1


def test_a_large_hand_over_goes_in_messages_that_fit():
    ring = Ring(3, copies=2)
    publisher = ring.at(KEY)[0]
    for number in range(40):
        ring.publish(publisher, f"light-{number}", bytes(4096))
    ring.join(Holder(ring, 100))  # `encode` would refuse a message that is too large
    ring.run(10)
    for number in range(40):
        assert ring.copies(record_key("source", f"light-{number}"))[:2] == [True, True]


def test_a_record_lives_as_long_as_its_publisher_and_one_ttl_more():
    ring = Ring(12)
    publisher = ring.at(KEY)[-1]
    ring.publish(publisher, ttl_s=60.0)
    ring.run(600)
    assert len(ring.get(ring.at(KEY)[7]).records) == 1
    assert len(ring.renewed) >= 30
    ring.crash(publisher)
    ring.run(61)
    assert ring.get(ring.at(KEY)[7]).records == ()
    ring.run(10)
    assert not any(holder.directory._holding.shelf for holder in ring.at(KEY))


def test_renewal_heals_what_a_crash_of_every_holder_destroyed():
    ring = Ring(20)
    publisher = ring.at(KEY)[-1]
    ring.publish(publisher, ttl_s=60.0)
    ring.confirm(*ring.at(KEY)[:4])
    assert ring.get(publisher).records == ()
    ring.run(21)
    assert ring.copies()[:4] == [True] * 4


def test_a_new_value_replaces_the_old_one():
    ring = Ring(12)
    publisher, asker = ring.at(KEY)[-2:]
    ring.publish(publisher, value=b"old")
    ring.publish(publisher, value=b"new")
    assert [it.value for it in ring.get(asker).records] == [b"new"]
    ring.run(1000)
    assert [it.value for it in ring.get(asker).records] == [b"new"]


# What is withdrawn stays withdrawn


def test_a_withdrawn_record_is_gone_for_good():
    ring = Ring(12)
    publisher, asker = ring.at(KEY)[-2:]
    ring.publish(publisher, ttl_s=60.0)
    assert ring.ask(publisher, publisher.directory.withdraw, "source", "light").copies == 4
    for _ in range(20):
        assert ring.get(asker).records == ()
        ring.run(5)
    assert not any(ring.copies())
    assert ring.publish(publisher, value=b"again").copies == 4
    assert [it.value for it in ring.get(asker).records] == [b"again"]


def test_a_holder_that_missed_the_withdrawal_does_not_bring_the_record_back():
    ring = Ring(12)
    publisher, asker = ring.at(KEY)[-2:]
    ring.publish(publisher, ttl_s=600.0)
    asleep = ring.at(KEY)[0]
    ring.crash(asleep)
    ring.ask(publisher, publisher.directory.withdraw, "source", "light")
    ring.crashed.clear()
    assert any(not it.is_withdrawn for it in asleep.directory.held(ring.now)), "it still has the record"
    assert ring.get(asker).records == ()
    ring.confirm(*ring.at(KEY)[1:3])  # so that it hands over what it has
    ring.run(5)
    assert ring.get(asker).records == ()
    ring.run(210)  # the tombstone is renewed as the record was
    assert all(it.is_withdrawn for it in asleep.directory.held(ring.now))


def test_a_withdrawal_after_a_restart_outlives_whatever_the_earlier_life_published():
    ring = Ring(6)
    publisher = ring.at(KEY)[0]
    ring.ask(publisher, publisher.directory.withdraw, "source", "light")
    (tombstone,) = publisher.directory.held(ring.now)
    assert tombstone.is_withdrawn
    assert tombstone.ttl_s == pytest.approx(TTL_S_MAX)


# What is refused, each with its reason


def lies(ring: Ring) -> dict[str, Record]:
    honest = ring.at(KEY)[-1]
    spy = Holder(ring, 900, ca=stranger)
    viewer = Holder(ring, 901, role="viewer")
    return {
        "forged": replace(honest.record(ring), value=b"lies"),
        "expired": honest.record(ring, issued_s=ring.now - 100),
        "from-the-future": honest.record(ring, issued_s=ring.now + 1000),
        "foreign-ca": spy.record(ring),
        "role": viewer.record(ring),
        "wrong-key": honest.record(ring, key=Key(KEY ^ 1)),
        "wrong-publisher": honest.record(ring, publisher=viewer.peer),
        "bad-ttl": honest.record(ring, ttl_s=1.0),
        "bad-certificate": replace(honest.record(ring), certificate=b"none"),
    }


@pytest.mark.parametrize("reason", sorted(lies(Ring(3))))
def test_a_lie_is_neither_kept_nor_believed(reason):
    ring = Ring(12)
    holder, sender = ring.at(KEY)[0], ring.at(KEY)[-1]
    ring.offer(sender, holder, lies(ring)[reason])
    assert ring.refused == {reason: 1}
    assert holder.directory.held(ring.now) == []
    stored = ring.ask(sender, sender.directory.put, lies(ring)[reason])
    assert stored == Stored(copies=0, wanted=4, refused={reason: 4})


def test_a_replayed_record_is_refused_and_counted():
    ring = Ring(12)
    holder, publisher = ring.at(KEY)[0], ring.at(KEY)[-1]
    old = publisher.record(ring)
    ring.publish(publisher, value=b"old")
    ring.run(1)
    ring.publish(publisher, value=b"new")
    ring.offer(publisher, holder, old)
    assert ring.refused == {"replayed": 1}
    ring.offer(publisher, holder, old, is_hand_over=True)  # an honest holder may simply not have heard
    assert ring.refused == {"replayed": 1}
    assert [it.value for it in holder.directory.held(ring.now)] == [b"new"]


def test_the_same_record_again_is_no_offence():
    ring = Ring(12)
    holder, publisher = ring.at(KEY)[0], ring.at(KEY)[-1]
    record = publisher.record(ring)
    for _ in range(3):
        ring.offer(publisher, holder, record)
    assert not ring.refused


def test_a_revoked_publisher_is_refused_and_dropped():
    ring = Ring(12)
    holder, publisher = ring.at(KEY)[0], ring.at(KEY)[-1]
    ring.publish(publisher)
    serial = holder.check.credential(publisher.certificate, ring.now).serial
    for each in ring.at(KEY):
        each.check.revoked = {serial}
    assert holder.directory.drop_where(lambda it: holder.check(it, ring.now) == "revoked") == 1
    assert holder.directory.held(ring.now) == []
    assert ring.get(ring.at(KEY)[5]).records == ()
    assert ring.refused["revoked"] >= 1


def test_a_holder_that_restarts_before_anybody_missed_it_gets_its_records_back():
    ring = Ring(12)
    publisher = ring.at(KEY)[-1]
    ring.publish(publisher)
    fallen = ring.at(KEY)[2]
    assert len(fallen.directory.held(ring.now)) == 1
    reborn = ring.restart(fallen)
    assert reborn.directory.held(ring.now) == []
    ring.run(5)
    assert [it.publisher for it in reborn.directory.held(ring.now)] == [publisher.peer]


def test_a_holder_that_restarts_in_the_middle_of_a_push_gets_all_of_it():
    ring = Ring(4, settle_s=0.5, ask_timeout_s=2.0)
    for number in range(70):  # more than one message, at every peer
        ring.publish(ring.at(KEY)[-1], name=f"light{number}")
    fallen = ring.at(KEY)[0]
    before = {it.key for it in fallen.directory.held(ring.now)}
    ring.restart(ring.restart(fallen), after_s=0.501)
    ring.run(20)
    assert {it.key for it in ring.holders[fallen.peer].directory.held(ring.now)} == before


def test_a_holder_that_lies_is_found_out_by_who_asks():
    ring = Ring(12)
    publisher, asker = ring.at(KEY)[-2:]
    ring.publish(publisher)
    liar = ring.at(KEY)[1]
    forged = replace(publisher.record(ring), value=b"lies", sequence=1 << 60)
    liar.check = lambda record, now: None  # type: ignore[assignment]
    ring.offer(publisher, liar, forged)
    assert [it.value for it in ring.get(asker).records] == [b"lumen"]
    assert ring.refused == {"forged": 1}


def test_a_record_is_not_kept_by_peers_far_from_its_key():
    ring = Ring(20)
    ring.offer(ring.at(KEY)[0], ring.at(KEY)[-1], ring.at(KEY)[0].record(ring))
    assert ring.refused == {"too-far": 1}


def test_a_reply_from_somebody_who_was_not_asked_is_refused():
    ring = Ring(12)
    asker, stranger_here = ring.at(KEY)[-2:]
    effects = asker.directory.get(KEY, 77, ring.now)
    question = next(it for it in effects if isinstance(it, Send)).message
    assert isinstance(question, Fetch)
    reply = FetchReply(question.nonce, (), (), False)
    assert asker.directory.receive(stranger_here.contact, reply, ring.now) == [
        Refused(stranger_here.peer, "not-asked")
    ]


def test_a_reply_that_comes_after_the_answer_changes_nothing():
    ring = Ring(5, copies=2)
    *near, slow, asker = ring.at(KEY)
    ring.view = {it.peer: it.contact for it in (near[2], slow, asker)}
    asks = [it for it in asker.directory.get(KEY, 77, ring.now) if isinstance(it, Send)]
    assert [it.to.peer for it in asks] == [near[2].peer, slow.peer]

    def reply(ask: Send, *contacts: Contact) -> list[Any]:
        return asker.directory.receive(ask.to, FetchReply(ask.message.nonce, contacts, (), False), ring.now)

    nearer = [it for it in reply(asks[0], near[0].contact, near[1].contact) if isinstance(it, Send)]
    assert reply(nearer[0]) == []
    assert reply(nearer[1]) == [Answer(77, Listing((), holders=3))]
    assert reply(asks[1]) == []


def test_peers_that_invent_ever_nearer_contacts_cannot_keep_a_search_running():
    ring = Ring(3, asks_max=20)
    asker = ring.at(KEY)[0]
    invented = count(1)
    effects = asker.directory.get(KEY, 77, ring.now)
    asked = 0
    while not any(isinstance(it, Answer) for it in effects):
        questions = [it for it in effects if isinstance(it, Send)]
        assert questions, "neither answered nor asking"
        effects = []
        for question in questions:
            asked += 1
            lie = Contact(PeerId(Key(KEY ^ (1 << 150) >> next(invented))), "10.0.0.9", 1)
            reply = FetchReply(question.message.nonce, (lie,), (), False)
            effects += asker.directory.receive(question.to, reply, ring.now)
    assert asked <= 20


# Bounds and costs


def test_many_publishers_of_one_name_come_page_by_page():
    ring = Ring(6)
    holder = ring.at(KEY)[0]
    publishers = []
    for number in range(8):
        issued = authority.issue(f"many{number}", "device", START, virtual_peers=16, days=30)
        certificate, signer = to_der(issued.certificate_pem), Signer.load(issued.key_pem)
        for peer in holder.check.credential(certificate, START).peers:
            blank = draft("source", "light", publisher=peer, value=bytes(1000), now=START, ttl_s=60.0)
            ring.offer(holder, holder, sign_record(blank, signer=signer, certificate=certificate))
            publishers.append(peer)
    assert [it.publisher for it in ring.get(ring.at(KEY)[-1]).records] == sorted(publishers)


def test_too_many_requests_at_once_fail_at_once():
    ring = Ring(6, searches_max=1)
    asker = ring.at(KEY)[0]
    assert not any(isinstance(it, Answer) for it in asker.directory.get(KEY, 1, ring.now))
    assert asker.directory.get(KEY, 2, ring.now) == [Answer(2, Listing((), holders=0))]


def test_without_records_nothing_is_sent_and_no_timer_set():
    ring = Ring(8)
    ring.join(Holder(ring, 100))
    ring.confirm(ring.at(KEY)[0])
    assert not ring._heap
    assert ring.sent == 0
    assert ring.at(KEY)[0].directory.leave(ring.now) == []


def test_once_all_has_expired_the_directory_is_quiet_again():
    ring = Ring(8)
    publisher = ring.at(KEY)[-1]
    ring.ask(publisher, publisher.directory.put, publisher.record(ring))
    publisher.directory.leave(ring.now)
    ring.run(200)
    assert not ring._heap


def test_nothing_is_left_behind_by_finished_requests():
    ring = Ring(20, loss=0.1)
    for holder in ring.at(KEY)[:10]:
        ring.publish(holder)
        ring.get(holder)
    ring.run(30)
    assert all(it.directory.is_idle for it in ring.at(KEY))
