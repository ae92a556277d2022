"""Who is let in, who is not and why, and that nobody holds more than his share."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.admission import Admission, Admitted, Limits, Refusal, Visitor
from overlay.certificates import Credential, CredentialError
from overlay.contact import Contact
from overlay.ids import Key, PeerId
from overlay.messages.session import PROTOCOL_VERSION, Hello, Visit

NOW = 1.8e9


def peer(number: int) -> PeerId:
    return PeerId(Key(number))


def contact(number: int, *, boot_ms: int = 1, host: str = "10.0.0.1") -> Contact:
    return Contact(peer(number), host, 4000, boot_ms=boot_ms)


def hello(*contacts: Contact) -> Hello:
    return Hello(PROTOCOL_VERSION, "attic", True, contacts)


def credential(*numbers: int, role: str = "device", cluster: str = "attic") -> Credential:
    peers = tuple(map(peer, numbers))
    return Credential("lamp", role, cluster, peers, b"", numbers[0], 0.0, 2e9, b"%d" % numbers[0])


class Door:
    """An admission whose certificates are simply numbers, and which remembers to open before HELLO."""

    def __init__(self, me: int = 500, *, limits: Limits | None = None, is_secure: bool = True) -> None:
        self.credentials: dict[bytes, Credential | CredentialError] = {}
        self.admission = Admission(
            cluster="attic",
            contacts=(contact(me),),
            read=self._read if is_secure else None,
            limits=limits,
        )
        self.serial = 0

    def _read(self, der: bytes, now: float) -> Credential:
        found = self.credentials[der]
        if isinstance(found, CredentialError):
            raise found
        return found

    def open(self, host: str = "10.0.0.1", *, is_dialled: bool = False) -> Refusal | None:
        self.serial += 1
        return self.admission.on_open(self.serial, host, is_dialled=is_dialled)

    def enter(self, said: Hello, shown: Credential | None, *, is_dialled: bool = False) -> Admitted | Refusal:
        assert self.open(is_dialled=is_dialled) is None
        der = None
        if shown is not None:
            der = shown.der
            self.credentials.setdefault(der, shown)
        return self.admission.on_hello(self.serial, said, certificate=der, now=NOW)


def test_a_device_with_its_certificate_comes_in_with_some_or_all_of_its_ids():
    door = Door()
    assert door.enter(hello(contact(7)), credential(7, 9)) == Admitted(peer(7), (contact(7),), is_member=True)
    assert isinstance(door.enter(hello(contact(7), contact(9)), credential(7, 9)), Admitted)


@pytest.mark.parametrize(
    "said, shown, reason",
    [
        (hello(contact(7)), None, "no-certificate"),
        (replace(hello(contact(7)), version=99), credential(7), "version"),
        (replace(hello(contact(7)), cluster="cellar"), credential(7), "wrong-cluster"),
        (hello(contact(7)), credential(7, cluster="cellar"), "wrong-cluster"),
        (hello(contact(7)), credential(7, role="viewer"), "bad-role"),
        (hello(contact(8)), credential(7), "id-mismatch"),
        (hello(contact(7), contact(8)), credential(7), "id-mismatch"),
        (hello(contact(500)), credential(500), "self"),
        (hello(), credential(7), "bad-field"),
        (hello(contact(7), contact(7)), credential(7), "bad-field"),
        (hello(contact(7, host="")), credential(7), "bad-field"),
        (hello(contact(7), contact(9, boot_ms=2)), credential(7, 9), "bad-field"),
    ],
)
def test_a_false_introduction_is_refused_with_its_reason(said, shown, reason):
    verdict = Door().enter(said, shown)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == reason


@pytest.mark.parametrize("reason", ["foreign-ca", "expired", "revoked", "bad-certificate", "not-yet-valid"])
def test_a_certificate_that_is_not_believed_is_refused_with_its_own_reason(reason):
    door = Door()
    door.credentials[b"7"] = CredentialError(reason, "as the reader said")
    verdict = door.enter(hello(contact(7)), credential(7))
    assert verdict == Refusal(reason, "as the reader said")


def test_a_restarted_device_supersedes_its_old_life_and_not_the_other_way_round():
    door = Door()
    door.enter(hello(contact(7, boot_ms=1)), credential(7))
    assert door.enter(hello(contact(7, boot_ms=2)), credential(7)) == Admitted(
        peer(7), (contact(7, boot_ms=2),), is_member=True, superseded=(1,)
    )
    assert door.admission.preferred(peer(7)) == 2
    verdict = door.enter(hello(contact(7, boot_ms=1)), credential(7))
    assert isinstance(verdict, Refusal) and verdict.reason == "duplicate"


@pytest.mark.parametrize("low, high", [(3, 900), (499, 500)])
def test_two_that_dial_each_other_at_once_send_on_the_same_connection(low, high):
    """The lower one's dial is preferred, whichever end one asks and whichever came first."""
    for lower_dial_first in (True, False):
        low_door, high_door = Door(low), Door(high)
        for by_lower in (lower_dial_first, not lower_dial_first):
            low_door.enter(hello(contact(high)), credential(high), is_dialled=by_lower)
            high_door.enter(hello(contact(low)), credential(low), is_dialled=not by_lower)
        expected = 1 if lower_dial_first else 2
        assert low_door.admission.preferred(peer(high)) == expected
        assert high_door.admission.preferred(peer(low)) == expected


def test_what_is_sent_moves_to_the_other_connection_when_the_preferred_one_ends():
    door = Door(3)
    door.enter(hello(contact(7)), credential(7), is_dialled=True)
    door.enter(hello(contact(7)), credential(7), is_dialled=False)
    door.admission.on_ending(1)
    assert door.admission.preferred(peer(7)) == 2
    door.admission.on_close(2)
    assert door.admission.preferred(peer(7)) is None


def test_one_peer_may_not_hold_more_connections_than_its_share():
    door = Door(limits=Limits(per_peer_max=2))
    verdicts = [door.enter(hello(contact(7)), credential(7)) for _ in range(3)]
    assert [type(each) for each in verdicts] == [Admitted, Admitted, Refusal]
    assert isinstance(verdicts[2], Refusal) and verdicts[2].reason == "too-many-from-peer"
    door.admission.on_close(3)
    door.admission.on_close(1)
    assert isinstance(door.enter(hello(contact(7)), credential(7)), Admitted)


def test_one_subnet_may_not_crowd_out_the_others():
    door = Door(limits=Limits(per_subnet_max=2))
    refusals = [door.open(host) for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.1.1", "127.0.0.1")]
    assert [refusal and refusal.reason for refusal in refusals] == [
        None, None, "too-many-from-subnet", None, None,
    ]  # fmt: skip


def test_strangers_who_say_nothing_may_not_crowd_out_peers_that_we_dial():
    door = Door(limits=Limits(pending_max=2, connections_max=3))
    assert door.open() is None
    assert isinstance(door.enter(hello(contact(7)), credential(7)), Admitted)
    assert door.open() is None
    refusal = door.open()
    assert refusal is not None and refusal.reason == "too-many"
    door.admission.on_close(2)
    refusal = door.open()
    assert refusal is not None and refusal.reason == "too-many-pending"
    assert door.open(is_dialled=True) is None


def test_without_certificates_only_this_machine_may_enter():
    door = Door(is_secure=False)
    refusal = door.open("192.168.1.5")
    assert refusal is not None and refusal.reason == "insecure-not-loopback"
    assert door.open("127.0.0.1") is None
    verdict = door.admission.on_hello(door.serial, hello(contact(7)), certificate=None, now=NOW)
    assert isinstance(verdict, Refusal) and verdict.reason == "insecure-not-loopback"
    assert door.open("::1") is None
    local = hello(contact(7, host="127.0.0.1"))
    assert isinstance(door.admission.on_hello(door.serial, local, certificate=None, now=NOW), Admitted)


def test_who_is_revoked_later_is_found_among_the_admitted():
    door = Door()
    door.enter(hello(contact(7)), credential(7))
    door.enter(hello(contact(8)), credential(8))
    assert door.admission.no_longer_trusted(NOW) == []
    door.credentials[b"8"] = CredentialError("revoked", "serial 8")
    assert door.admission.no_longer_trusted(NOW) == [(2, "revoked")]


@given(st.lists(st.tuples(st.sampled_from(["open", "enter", "close"]), st.integers(0, 20)), max_size=60))
def test_whatever_comes_and_goes_the_shares_hold_and_nothing_is_left_over(steps):
    limits = Limits(connections_max=6, pending_max=3, per_peer_max=2, per_subnet_max=4)
    door = Door(limits=limits)
    is_open: dict[int, int | None] = {}
    for step, number in steps:
        if step == "open" and door.open(f"10.0.{number % 2}.1") is None:
            is_open[door.serial] = None
        elif step == "enter" and (pending := [each for each in is_open if is_open[each] is None]):
            device = 1 + number % 3
            shown = credential(device)
            door.credentials[shown.der] = shown
            said = hello(contact(device))
            verdict = door.admission.on_hello(pending[0], said, certificate=shown.der, now=NOW)
            if isinstance(verdict, Admitted):
                is_open[pending[0]] = device
        elif step == "close" and is_open:
            serial = sorted(is_open)[number % len(is_open)]
            del is_open[serial]
            door.admission.on_close(serial)
        assert len(is_open) <= limits.connections_max
        for device in (1, 2, 3):
            held = [serial for serial, owner in is_open.items() if owner == device]
            assert len(held) <= limits.per_peer_max
            assert door.admission.preferred(peer(device)) in (held if held else [None])


# Visitors.


def visit(
    door: Door, shown: Credential | CredentialError | None, *, cluster: str = "attic", version: int = PROTOCOL_VERSION
):
    """What a person hears who dials us with this certificate."""
    door.credentials[b"visitor"] = shown if shown is not None else credential(1)
    said = Visit(version, cluster)
    return door.admission.on_visit(said, certificate=b"visitor" if shown else None, now=NOW)


@pytest.mark.parametrize("role", ["operator", "viewer"])
def test_a_person_may_visit_and_is_nobodys_peer(role):
    door = Door()
    assert door.open() is None
    assert visit(door, credential(7, role=role)) == Visitor("lamp", role)
    assert door.admission.preferred(peer(7)) is None


@pytest.mark.parametrize(
    ("shown", "said", "reason"),
    [
        (credential(7), {}, "bad-role"),
        (None, {}, "no-certificate"),
        (CredentialError("revoked", "lamp"), {}, "revoked"),
        (credential(7, role="viewer", cluster="cellar"), {}, "wrong-cluster"),
        (credential(7, role="viewer"), {"cluster": "cellar"}, "wrong-cluster"),
        (credential(7, role="viewer"), {"version": 99}, "version"),
    ],
)
def test_who_may_not_visit_is_told_why(shown, said, reason):
    verdict = visit(Door(), shown, **said)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == reason


def test_without_certificates_nobody_visits():
    verdict = visit(Door(is_secure=False), credential(7, role="operator"))
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "no-certificate"


def test_visitors_count_among_those_who_have_not_said_hello():
    """So that people cannot hold more connections than strangers may."""
    door = Door(limits=Limits(pending_max=2))
    for _ in range(2):
        assert door.open() is None
        assert isinstance(visit(door, credential(7, role="viewer")), Visitor)
    refusal = door.open()
    assert refusal is not None and refusal.reason == "too-many-pending"
