"""Every message survives the wire, and no bytes whatsoever do harm."""

import importlib
import pkgutil
import tracemalloc
import types
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, NewType, Union, get_args, get_origin, get_type_hints

import msgpack
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import dataflow.deploying.requests
import dataflow.deploying.scheduling
import dataflow.generations.messages  # noqa: F401 (and those of a running app)
import overlay.messages
import recovery.custody.messages
import recovery.register.acceptor  # noqa: F401 (so are these)
from overlay.contact import Contact
from overlay.ids import Key, PeerId
from overlay.wire import CONTROL_BYTES_MAX, ELEMENTS_MAX, WireError, decode, encode, kinds_of, message, messages
from tests.overlay.rings import keys

for module in pkgutil.iter_modules(overlay.messages.__path__):
    importlib.import_module(f"overlay.messages.{module.name}")

contacts = st.builds(
    lambda peer, host, port, zone, boot_ms: Contact(PeerId(peer), host, port, zone=zone, boot_ms=boot_ms),
    keys,
    st.text(max_size=20),
    st.integers(0, 65535),
    st.text(max_size=10),
    st.integers(0, 2**64 - 1),
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**64 - 1) | st.integers(0, 65535),
    float: st.floats(0, 1000),
    str: st.text(max_size=30),
    bytes: st.binary(max_size=64) | st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32),
    bool: st.booleans(),
    Contact: contacts,
    Key: keys,
    PeerId: keys,
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field, by its type; whether its kind takes them is tried afterwards."""
    if get_origin(hint) is Annotated:
        plain, kind = get_args(hint)[:2]
        if kind.name.startswith("one of "):
            return st.sampled_from(kind.name.removeprefix("one of ").split(", "))
        return values_of(plain).filter(lambda value: survives(kind, value))
    if isinstance(hint, NewType) or hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of(*(st.none() if it is type(None) else values_of(it) for it in get_args(hint)))
    assert isinstance(hint, type) and is_dataclass(hint), f"no way to draw {hint}"
    hints = get_type_hints(hint, include_extras=True)
    return st.builds(hint, *(values_of(hints[field.name]) for field in fields(hint)))


def survives(kind: Any, value: Any) -> bool:
    try:
        return bool(kind.unpack(kind.pack(value)) == value)
    except WireError:
        return False


any_message = st.sampled_from(messages()).flatmap(values_of)


@pytest.mark.parametrize("cls", messages(), ids=lambda cls: cls.__name__)
def test_each_message_comes_out_as_it_went_in(cls):
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
    @given(values_of(cls))
    def round_trip(it):
        assert decode(encode(it)) == it

    round_trip()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_message, st.data())
def test_a_changed_byte_gives_a_wire_error_or_another_message_never_anything_else(it, data):
    raw = bytearray(encode(it))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        changed = decode(raw)
    except WireError:
        return
    assert type(changed) in messages()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_message, st.data())
def test_a_cut_or_lengthened_message_is_a_wire_error(it, data):
    raw = encode(it)
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(WireError):
        decode(raw[:cut])
    with pytest.raises(WireError):
        decode(raw + data.draw(st.binary(min_size=1, max_size=8)))


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_noise_is_a_wire_error(raw):
    try:
        it = decode(raw)
    except WireError as error:
        assert error.reason in {"not-msgpack", "bad-field", "unknown-message"}
    else:
        assert type(it) in messages()


@given(any_message)
def test_a_field_too_many_or_too_few_is_refused(it):
    values = msgpack.unpackb(encode(it))
    for wrong in ([*values, 0], values[:-1]):
        assume(len(wrong) > 0)
        with pytest.raises(WireError):
            decode(msgpack.packb(wrong))


BOMBS = {
    "deeply nested arrays": b"\x91" * (CONTROL_BYTES_MAX - 1),
    "an array of empty arrays": b"\xdc" + ELEMENTS_MAX.to_bytes(2, "big") + b"\x90" * ELEMENTS_MAX,
    "arrays of arrays of empty arrays": b"\xdc\x00\x3f" + (b"\xdc\x03\xff" + b"\x90" * 1023) * 63,
    "an array that claims four thousand million elements": b"\xdd\xff\xff\xff\xff",
    "a map that claims as many": b"\xdf\xff\xff\xff\xff",
    "a text that claims four gigabytes": b"\xdb\xff\xff\xff\xff",
    "bytes that claim four gigabytes": b"\xc6\xff\xff\xff\xff",
    "a nest of maps": b"\x81\x01" * 20_000,
    "an extension type": b"\xc7\x05\x01hello",
    "a timestamp": b"\xd6\xff\x00\x00\x00\x00",
    "text that is no UTF-8": b"\x92\x01\xa2\xff\xfe",
    "a number for a message": b"\x07",
    "nothing": b"",
    "too much": b"\x00" * (CONTROL_BYTES_MAX + 1),
    "a tag that is a text": b"\x91\xa1x",
    "a tag of another world": b"\x91\xcd\xff\xff",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_within_sixteen_mebibytes(bomb):
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=64), st.integers(1, 3000))
def test_repeated_noise_stays_small_too(unit, times):
    raw = (unit * times)[:CONTROL_BYTES_MAX]
    tracemalloc.start()
    try:
        decode(raw)
    except WireError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 16 * 2**20


def test_what_we_could_not_read_we_do_not_send():
    from overlay.messages.finding import Found
    from overlay.vitals import Vitals

    contact = Contact(PeerId(Key(1)), "h", 1)
    vitals = Vitals(cores=1, memory_mib=1, slots=1, slots_used=0, load=0.0)
    with pytest.raises(WireError):
        encode(Found(1, (contact,) * 1000, vitals))


def test_a_tag_is_given_once():
    with pytest.raises(AssertionError, match="taken"):
        message(tag=20)(type("Thief", (), {"__annotations__": {}}))


def test_every_field_of_every_message_has_a_kind():
    assert len(messages()) > 20
    for cls in messages():
        assert len(kinds_of(cls)) == len(fields(cls))
