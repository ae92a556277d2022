import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import DIGITS, digit_at, from_bytes, from_hex, key_of, peer_id, shared_digits, to_bytes, to_hex
from tests.overlay.rings import keys


@given(keys)
def test_a_key_survives_bytes_and_hex(key):
    assert from_bytes(to_bytes(key)) == key
    assert from_hex(to_hex(key)) == key


@given(keys, keys)
def test_shared_digits_is_what_a_person_would_count(a, b):
    common = 0
    for left, right in zip(to_hex(a), to_hex(b), strict=True):
        if left != right:
            break
        common += 1
    assert shared_digits(a, b) == common
    if common < DIGITS:
        assert digit_at(a, common) == int(to_hex(a)[common], 16)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_another_nonce_is_another_place_so_nobody_can_choose_his_own(public_key, nonce, other):
    assert (peer_id(public_key, nonce) == peer_id(public_key, other)) == (nonce == other)


def test_names_and_peers_never_hash_alike():
    assert key_of("x") != peer_id(b"x", b"")


@pytest.mark.parametrize("text", ["", "12", "g" * 40, "0" * 41])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(ValueError):
        from_hex(text)
