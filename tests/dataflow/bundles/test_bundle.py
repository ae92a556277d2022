"""A bundle is one string of bytes with one hash, and nothing but a bundle is taken for one."""

from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.bundles.bundle import BUNDLE_BYTES_MAX, Bundle, BundleError, unpack
from dataflow.bundles.limits import Limits

NAMES = st.from_regex(r"[a-z_]{1,8}(/[a-z_]{1,8}){0,2}\.py", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=50)


@given(st.dictionaries(NAMES, TEXTS), st.dictionaries(TEXTS, TEXTS), st.integers(16, 5000))
def test_what_is_packed_is_what_is_unpacked(files, params, memory_mib):
    bundle = Bundle("app.py", {**files, "app.py": "x"}, params, Limits(memory_mib=memory_mib))
    again = unpack(bundle.packed)
    assert again == bundle and again.id == bundle.id


@given(st.permutations([("b.py", "2"), ("app.py", "1"), ("a/c.py", "3")]))
def test_the_order_of_files_does_not_change_the_hash(files):
    assert Bundle("app.py", dict(files)).id == Bundle("app.py", dict(sorted(files))).id


def test_every_part_is_in_the_hash():
    bundles = [
        Bundle("app.py", {"app.py": ""}),
        Bundle("app.py", {"app.py": " "}),
        Bundle("app.py", {"app.py": "", "b.py": ""}),
        Bundle("b.py", {"app.py": "", "b.py": ""}),
        Bundle("app.py", {"app.py": ""}, {"limit": "3"}),
        Bundle("app.py", {"app.py": ""}, {"limit": "4"}),
        Bundle("app.py", {"app.py": ""}, limits=Limits(memory_mib=64)),
    ]
    assert len({bundle.id for bundle in bundles}) == len(bundles)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused_with_a_sentence(raw):
    with pytest.raises(BundleError, match="bundle"):
        unpack(raw)


@given(st.data())
def test_a_changed_byte_is_another_bundle_or_none(data):
    bundle = Bundle("app.py", {"app.py": "x = 1"}, {"limit": "3"})
    raw = bytearray(bundle.packed)
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(BundleError):
        assert unpack(bytes(raw)).id != bundle.id


GOOD = ["shoal-bundle", 1, "app.py", [["app.py", ""]], [], [64, 1, 1]]


def changed(at, value):
    return [*GOOD[:at], value, *GOOD[at + 1 :]]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (changed(1, 2), "a bundle of format 2"),
        (changed(2, "other.py"), "no such file"),
        (changed(2, 7), "int where text is expected"),
        (changed(3, [["app.py", ""], ["../etc/x.py", ""]]), "not the name of a module's file"),
        (changed(3, [["app.py", ""], ["/x.py", ""]]), "not the name of a module's file"),
        (changed(3, [["app.py", ""], ["a.txt", ""]]), "not the name of a module's file"),
        (changed(3, [["b.py", ""], ["app.py", ""]]), "not written in the one form"),
        (changed(3, [["app.py", ""], ["app.py", "x"]]), "not written in the one form"),
        (changed(3, [["app.py", "", ""]]), "pairs of texts"),
        (changed(3, [["app.py", ""], *([f"m{n}.py", ""] for n in range(300))]), "a bundle holds 256"),
        (changed(4, [["a", 1]]), "int where text is expected"),
        (changed(5, [64, 1]), "three whole numbers"),
        (changed(5, [64, True, 1]), "batch_cpu_s is True"),
        (changed(5, [1, 1, 1]), "memory_mib is 1"),
    ],
)
def test_bytes_that_only_look_like_a_bundle(made, words):
    unpack(msgpack.packb(GOOD))
    with pytest.raises(BundleError, match=words):
        unpack(msgpack.packb(made))


def test_a_bundle_that_is_too_large_names_its_largest_file():
    bundle = Bundle("app.py", {"app.py": "", "table.py": "#" * BUNDLE_BYTES_MAX})
    with pytest.raises(BundleError, match=r"table\.py"):
        bundle.packed  # noqa: B018 (it is what fails)
    with pytest.raises(BundleError, match="at most"):
        unpack(bytes(BUNDLE_BYTES_MAX + 1))
