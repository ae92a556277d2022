"""A stolen device stays out, whatever old lists somebody replays."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.certificates import Authority
from overlay.denylist import (
    DENYLIST_BYTES_MAX,
    NOBODY,
    SERIALS_MAX,
    Denylist,
    DenylistError,
    read_denylist,
    sign_denylist,
)

authority = Authority.create("attic", 1.8e9, days=10, draw=Random(1).randbytes)
stranger = Authority.create("attic", 1.8e9, days=10, draw=Random(2).randbytes)

serials = st.frozensets(st.integers(1, (1 << 63) - 1), max_size=20)
lists = st.builds(
    lambda chosen, version: sign_denylist(authority, chosen, version=version), serials, st.integers(1, 5)
)


def read(raw: bytes) -> Denylist:
    return read_denylist(raw, authority_public_key=authority.public_key)


@settings(max_examples=50, deadline=None)
@given(lists)
def test_what_the_ca_signed_is_read_back(denylist):
    assert read(denylist.raw) == denylist
    assert all(serial in denylist for serial in denylist.serials)
    assert 0 not in denylist


@settings(max_examples=50, deadline=None)
@given(lists, lists, lists)
def test_all_who_hear_the_same_lists_end_with_the_same_one(a, b, c):
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(a) == a.merge(NOBODY) == NOBODY.merge(a) == a
    assert a.merge(b).version == max(a.version, b.version)


@settings(max_examples=50, deadline=None)
@given(lists, st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_list_is_no_list(denylist, at, flip):
    raw = bytearray(denylist.raw)
    raw[at % len(raw)] ^= flip
    with pytest.raises(DenylistError) as caught:
        read(bytes(raw))
    assert caught.value.reason == "forged"


def test_the_list_of_a_foreign_ca_is_forged():
    with pytest.raises(DenylistError, match="forged"):
        read(sign_denylist(stranger, [7], version=9).raw)


@pytest.mark.parametrize("raw", [b"x", bytes(64), bytes(71), bytes(73), bytes(DENYLIST_BYTES_MAX + 8)])
def test_bytes_of_the_wrong_shape_are_not_even_verified(raw):
    with pytest.raises(DenylistError, match="bad-denylist"):
        read(raw)


def test_a_restart_without_a_list_denies_nobody():
    assert read(b"") is NOBODY


def test_the_largest_list_is_read_and_a_larger_one_is_not_made():
    largest = sign_denylist(authority, range(1, SERIALS_MAX + 1), version=1)
    assert len(largest.raw) == DENYLIST_BYTES_MAX
    assert read(largest.raw) == largest
    with pytest.raises(ValueError, match="leave out"):
        sign_denylist(authority, range(1, SERIALS_MAX + 2), version=1)
