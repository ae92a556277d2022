"""Which records are believed. Every refusal has its own reason."""

from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.certificates import CLOCK_SKEW_S_MAX, Authority, Credential, read_credential, to_der
from overlay.ids import Key, key_of
from overlay.records import (
    CREDENTIALS_CACHED_MAX,
    MAY_PUBLISH,
    TTL_S_MAX,
    TTL_S_MIN,
    VALUE_BYTES_MAX,
    Record,
    RecordCheck,
    draft,
    record_key,
    sign_record,
)
from overlay.shelf import Shelf
from overlay.signing import Signer

NOW = 1_800_000_000.0
authority = Authority.create("attic", NOW, days=3650, draw=Random(1).randbytes)
stranger = Authority.create("attic", NOW, days=3650, draw=Random(2).randbytes)


class Publisher:
    """Somebody with a certificate and a key."""

    def __init__(self, name: str, role: str = "device", *, ca: Authority = authority, days: float = 30):
        issued = ca.issue(name, role, NOW, virtual_peers=2, days=days, draw=Random(name + role).randbytes)
        self.signer = Signer.load(issued.key_pem)
        self.der = to_der(issued.certificate_pem)
        self.credential: Credential = read_credential(self.der, authority_certificate=ca.certificate, now=NOW)
        self.peer = self.credential.peers[0]

    def draft(self, kind: str = "source", *, now: float = NOW, ttl_s: float = 60.0) -> Record:
        return draft(kind, "light", publisher=self.peer, value=b"lumen", now=now, ttl_s=ttl_s)

    def sign(self, record: Record) -> Record:
        return sign_record(record, signer=self.signer, certificate=self.der)


lamp, spy = Publisher("lamp"), Publisher("lamp", ca=stranger)
check = RecordCheck(authority.certificate)


def test_an_honest_record_is_believed_for_every_virtual_peer_of_its_publisher():
    for peer in lamp.credential.peers:
        assert check(lamp.sign(replace(lamp.draft(), publisher=peer)), NOW) is None


def test_kind_and_name_make_the_key():
    assert lamp.draft().key == record_key("source", "light") == key_of("source:light")


@pytest.mark.parametrize("role", ["device", "operator", "viewer"])
@pytest.mark.parametrize("kind", sorted(MAY_PUBLISH))
def test_the_role_decides_what_may_be_published(role, kind):
    someone = Publisher("someone", role)
    expected = None if role in MAY_PUBLISH[kind] else "role"
    assert check(someone.sign(someone.draft(kind)), NOW) == expected


def test_only_operators_launch_and_viewers_publish_nothing():
    assert MAY_PUBLISH["app"] == {"operator"}
    assert not any("viewer" in roles for roles in MAY_PUBLISH.values())


CHANGES: dict[str, Any] = {
    "name": "dark",
    "kind": "stream",
    "publisher": lamp.credential.peers[1],
    "sequence": 1 << 60,
    "issued_s": NOW + 1,
    "ttl_s": 61.0,
    "is_withdrawn": True,
    "value": b"candela",
    "signature": bytes(64),
}


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_whatever_is_changed_after_signing_is_noticed(field):
    changed = replace(lamp.sign(lamp.draft()), **{field: CHANGES[field]})
    changed = replace(changed, key=record_key(changed.kind, changed.name))
    assert check(changed, NOW) == "forged"


def test_every_field_is_covered_by_that():
    assert {it.name for it in fields(Record)} == {*CHANGES, "key", "certificate"}


def test_a_record_under_the_wrong_key_is_refused():
    assert check(lamp.sign(replace(lamp.draft(), key=Key(7))), NOW) == "wrong-key"


def test_a_record_of_a_foreign_cluster_is_refused():
    assert check(spy.sign(spy.draft()), NOW) == "foreign-ca"


def test_nobody_publishes_in_the_name_of_another():
    other = Publisher("kettle")
    assert check(other.sign(lamp.draft()), NOW) == "wrong-publisher"
    assert check(replace(lamp.sign(lamp.draft()), certificate=other.der), NOW) == "wrong-publisher"


def test_a_record_lives_from_its_issue_to_the_end_of_its_ttl():
    record = lamp.sign(lamp.draft(ttl_s=60))
    assert check(record, NOW + 59.9) is None
    assert check(record, NOW + 60) == "expired"
    assert check(record, NOW - CLOCK_SKEW_S_MAX) is None
    assert check(record, NOW - CLOCK_SKEW_S_MAX - 1) == "from-the-future"


@pytest.mark.parametrize("ttl_s", [0.0, TTL_S_MIN - 1, TTL_S_MAX + 1])
def test_a_ttl_has_bounds(ttl_s):
    assert check(lamp.sign(lamp.draft(ttl_s=ttl_s)), NOW) == "bad-ttl"


def test_an_expired_certificate_speaks_no_longer_even_if_it_was_verified_before():
    brief = Publisher("brief", days=1)
    assert check(brief.sign(brief.draft()), NOW) is None
    later = NOW + 2 * 86_400
    assert check(brief.sign(brief.draft(now=later)), later) == "expired-certificate"


def test_a_revoked_certificate_speaks_no_longer_even_if_it_was_verified_before():
    mine = RecordCheck(authority.certificate)
    record = lamp.sign(lamp.draft())
    assert mine(record, NOW) is None
    mine.revoked = {lamp.credential.serial}
    assert mine(record, NOW) == "revoked"


def test_bytes_that_are_no_certificate_are_refused():
    assert check(replace(lamp.sign(lamp.draft()), certificate=b"hello"), NOW) == "bad-certificate"


def test_a_value_that_is_too_large_is_refused_when_it_is_drafted():
    with pytest.raises(ValueError, match="4096"):
        draft("source", "light", publisher=lamp.peer, value=bytes(VALUE_BYTES_MAX + 1), now=NOW, ttl_s=60)


def test_only_so_many_certificates_are_remembered():
    mine = RecordCheck(authority.certificate)
    for number in range(CREDENTIALS_CACHED_MAX + 5):
        issued = authority.issue(f"p{number}", "device", NOW, days=1)
        mine.credential(to_der(issued.certificate_pem), NOW)
    assert len(mine._verified) == CREDENTIALS_CACHED_MAX


# The shelf on which a holder keeps them

small = st.integers(0, 5)


def bare(key: int, publisher: int, sequence: int, ttl_s: float = 60.0) -> Record:
    """The shelf never looks at signatures, so these have none."""
    return Record("source", "x", key, publisher, sequence, NOW, ttl_s, False, b"%d" % ttl_s)  # type: ignore[arg-type]


records = st.lists(st.builds(bare, small, small, small, st.integers(10, 14).map(float)), max_size=40)


@given(records, st.randoms(use_true_random=False))
def test_in_any_order_the_newest_of_each_publisher_stays(batch, shuffle):
    unique = list({(it.key, it.publisher, it.sequence): it for it in batch}.values())
    shelf = Shelf(lamp.peer, records_max=99, per_publisher_max=99, per_key_max=99)
    shuffled = unique[:]
    shuffle.shuffle(shuffled)
    for record in shuffled:
        shelf.put(record)
    newest: dict[tuple[int, int], Record] = {}
    for record in unique:
        place = (record.key, record.publisher)
        if place not in newest or record.sequence > newest[place].sequence:
            newest[place] = record
    assert {(it.key, it.publisher): it for it in shelf} == newest
    assert len(shelf) == len(newest)


@given(records, st.integers(10, 15))
def test_a_shelf_never_passes_its_bounds_and_forgets_what_has_ended(batch, after_s):
    shelf = Shelf(lamp.peer, records_max=6, per_publisher_max=3, per_key_max=2)
    for record in batch:
        shelf.put(record)
        kept = list(shelf)
        assert len(kept) == len(shelf) <= 6
        assert all(sum(1 for it in kept if it.publisher == peer) <= 3 for peer in range(6))
        assert all(len(shelf.under(Key(key))) <= 2 for key in range(6))
    shelf.expire(NOW + after_s)
    assert all(it.ttl_s > after_s for it in shelf)
    assert len(list(shelf)) == len(shelf)


def test_each_bound_has_its_reason_and_renewals_always_get_in():
    def shelf(**bounds: int) -> Shelf:
        full = Shelf(lamp.peer, **{"records_max": 9, "per_publisher_max": 9, "per_key_max": 9, **bounds})
        assert full.put(bare(1, 1, 1)) is None
        return full

    assert shelf(per_publisher_max=1).put(bare(2, 1, 1)) == "publisher-full"
    assert shelf(per_key_max=1).put(bare(1, 2, 1)) == "key-full"
    full = shelf(records_max=1)
    assert full.put(bare(1, 2, 1)) == "holder-full"
    assert full.put(bare(1, 1, 2)) is None
    assert full.put(bare(1, 1, 1)) == "replayed"


def test_a_full_holder_gives_up_what_is_farthest_from_it():
    shelf = Shelf(lamp.peer, records_max=2, per_publisher_max=9, per_key_max=9)
    near, mid, far = lamp.peer ^ 1, lamp.peer ^ 2, lamp.peer ^ 3
    assert [shelf.put(bare(far, 1, 1)), shelf.put(bare(mid, 1, 1)), shelf.put(bare(near, 1, 1))] == [None] * 3
    assert sorted(it.key ^ lamp.peer for it in shelf) == [1, 2]
    assert shelf.put(bare(far, 1, 1)) == "holder-full"


def test_renewing_in_a_loop_does_not_fill_the_memory():
    shelf = Shelf(lamp.peer, records_max=9, per_publisher_max=9, per_key_max=9)
    for sequence in range(1000):
        shelf.put(bare(1, 1, sequence))
    assert len(shelf._expiries) < 30


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200), st.text(min_size=1, max_size=30), st.floats(TTL_S_MIN, TTL_S_MAX))
def test_whatever_an_honest_publisher_says_is_believed(value, name, ttl_s):
    record = draft("source", name, publisher=lamp.peer, value=value, now=NOW, ttl_s=ttl_s)
    assert check(lamp.sign(record), NOW) is None
