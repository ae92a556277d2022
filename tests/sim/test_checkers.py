"""Checkers that cannot fail prove nothing: each is shown a mistake."""

from dataclasses import dataclass, field

from overlay.contact import Contact
from overlay.effects import Arrived, Confirmed
from overlay.ids import Key, PeerId
from sim.census import Census
from sim.checkers.confirmations import GRACE_S, Confirmations
from sim.checkers.deliveries import Deliveries
from sim.checkers.leaf_sets import wrong_leaf_sets
from sim.checkers.routes import standstill
from sim.peer import State
from tests.sim.pinging import Pair


@dataclass
class LeafNode:
    me: Contact
    leaves: list[Contact] = field(default_factory=list)


def test_a_missing_and_an_extra_leaf_are_both_seen():
    pair = Pair()
    pair.one.node = LeafNode(pair.one.me, [Contact(PeerId(Key(3)), "h", 3)])
    census = Census([PeerId(Key(1)), PeerId(Key(2))])
    (wrong,) = wrong_leaf_sets([pair.one], census, 24)
    assert (wrong.missing, wrong.extra) == ((2,), (3,))
    pair.one.node.leaves = [pair.two.me]
    assert wrong_leaf_sets([pair.one], census, 24) == []


def test_to_confirm_the_living_is_false_and_to_confirm_the_dead_is_not():
    pair = Pair()
    confirmations = Confirmations(pair.network)
    confirmations.on_confirmed(pair.one, Confirmed(pair.two.me), 2 * GRACE_S)
    assert len(confirmations.false) == 1
    pair.heap.run_to(60.0)
    pair.two.end(State.CRASHED)
    confirmations.on_confirmed(pair.one, Confirmed(pair.two.me), 65.0)
    assert (len(confirmations.false), confirmations.total) == (1, 2)
    assert confirmations.detected_s == {pair.two: 5.0}


def test_who_is_cut_off_or_paused_or_just_back_may_be_confirmed():
    pair = Pair()
    confirmations = Confirmations(pair.network)
    pair.heap.run_to(60.0)
    cut = pair.network.cut([pair.two.me.peer], [pair.one.me.peer])
    confirmations.on_confirmed(pair.one, Confirmed(pair.two.me), 60.0)
    pair.network.heal(cut)
    confirmations.on_confirmed(pair.one, Confirmed(pair.two.me), 60.0 + GRACE_S / 2)
    pair.heap.run_to(100.0)
    pair.two.pause()
    confirmations.on_confirmed(pair.one, Confirmed(pair.two.me), 110.0)
    assert confirmations.false == []


def test_to_confirm_an_earlier_life_of_a_living_peer_is_true():
    pair = Pair()
    old = Contact(pair.two.me.peer, "h", 1, boot_ms=0)
    pair.two.me = Contact(pair.two.me.peer, "h", 1, boot_ms=9)
    confirmations = Confirmations(pair.network)
    confirmations.on_confirmed(pair.one, Confirmed(old), 60.0)
    assert confirmations.false == []


class RoutingNode:
    def __init__(self, me: Contact) -> None:
        self.me = me

    def route(self, key: Key, kind: str, payload: bytes, now: float):
        return 5, []


def test_a_message_taken_by_another_than_the_owner_is_astray():
    pair = Pair()
    pair.one.node = RoutingNode(pair.one.me)
    deliveries = Deliveries(Census([PeerId(Key(1)), PeerId(Key(2))]))
    delivery = deliveries.send(pair.one, Key(2), 0.0)
    arrived = Arrived(Key(2), Deliveries.KIND, bytes(8), pair.one.me, ())
    deliveries.on_arrived(pair.two, arrived, 1.0)
    assert delivery.is_right and delivery.delay_s == 1.0
    deliveries.on_arrived(pair.one, arrived, 1.0)
    assert delivery.strays == [pair.one]
    assert not delivery.is_right


def test_a_hop_that_comes_no_nearer_is_seen():
    route = [PeerId(Key(number)) for number in (12, 5, 5)]
    assert standstill(Key(4), route) == 5
    assert standstill(Key(4), route[:2]) is None
