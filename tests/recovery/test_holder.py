"""One holder: what it promises, what it refuses, what it knows after a restart, what a damaged disk does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.wire import CONTROL_BYTES_MAX, encode
from recovery.coding.slices import FRAGMENT_BYTES_MAX
from recovery.custody.files import Damaged, file_name, file_of, read_file, read_header
from recovery.custody.holder import Answer, Delete, Holder, Load, Store, carry_out, open_holder, serve
from recovery.custody.messages import (
    PAGE_MAX,
    DropFragments,
    Fragment,
    Fragments,
    GetFragment,
    Held,
    Kept,
    ListFragments,
    NoFragment,
    PutFragment,
    Refused,
    drop_all,
)
from recovery.folder import Folder
from recovery.naming import FragmentId, digest_of
from tests.recovery.disks import Crash, MemoryDisk

APP = "b" * 64
BODY = b"fragment" * 100


def a_name(index=0, *, epoch=1, generation=1, number=0, instance="count/0", app=APP):
    return FragmentId(app, instance, generation, epoch, number, index)


def put(name=None, body=BODY, ask=1):
    return PutFragment(ask, name or a_name(), digest_of(body))


def get(name=None, *, is_probe=False):
    return GetFragment(2, name or a_name(), is_probe)


@pytest.fixture
def disk(tmp_path):
    return Folder(tmp_path / "fragments")


def test_what_was_put_comes_back_also_after_a_restart(disk):
    holder = open_holder(disk, bytes_max=10_000)
    assert serve(holder, disk, put(), BODY) == (Kept(1, digest_of(BODY)), b"")
    used = holder.bytes_used
    again = open_holder(disk, bytes_max=10_000)
    assert again.bytes_used == used == sum(disk.size(name) for name in disk.names())
    assert again.apps() == [APP]
    reply, body = serve(again, disk, get())
    assert (reply, bytes(body)) == (Fragment(2, digest_of(BODY)), BODY)
    assert serve(again, disk, get(is_probe=True)) == (Fragment(2, digest_of(BODY)), b"")
    assert isinstance(serve(again, disk, get(a_name(1)))[0], NoFragment)


def test_no_receipt_before_the_disk_has_it():
    holder = Holder(bytes_max=10_000)
    step = holder.answer(put(), BODY)
    assert isinstance(step, Store)
    assert isinstance(holder.answer(get()), Answer)  # not there yet, and it says so
    assert isinstance(holder.stored(step).reply, Kept)
    assert isinstance(holder.answer(get()), Load)


def test_the_same_again_is_receipted_again_and_another_under_its_name_is_refused(disk):
    holder = open_holder(disk, bytes_max=10_000)
    serve(holder, disk, put(), BODY)
    used = holder.bytes_used
    assert isinstance(serve(holder, disk, put(), BODY)[0], Kept)
    other = BODY[::-1]
    reply, _ = serve(holder, disk, put(body=other), other)
    assert reply == Refused(1, "another fragment is kept under this name, and stays")
    assert bytes(serve(holder, disk, get())[1]) == BODY
    assert holder.bytes_used == used


def test_a_fragment_that_was_changed_on_its_way_is_refused(disk):
    holder = open_holder(disk, bytes_max=10_000)
    assert isinstance(serve(holder, disk, put(), BODY[:-1])[0], Refused)
    assert disk.names() == []


def test_the_quota_counts_what_is_on_disk_and_what_is_being_written():
    holder = Holder(bytes_max=2 * (len(BODY) + 200))
    first, second = (holder.answer(put(a_name(it)), BODY) for it in range(2))
    assert isinstance(first, Store) and isinstance(second, Store)
    third = holder.answer(put(a_name(2)), BODY)
    assert isinstance(third, Answer) and isinstance(third.reply, Refused)
    assert third.reply.reason.startswith("the quota of 2000 bytes leaves")
    holder.stored(second)
    assert isinstance(holder.answer(put(a_name(2)), BODY), Answer)
    dropped = holder.answer(drop_all(5, APP))
    assert isinstance(dropped, Delete)
    assert isinstance(holder.answer(put(a_name(2)), BODY), Store)


def test_a_full_or_broken_disk_is_a_refusal_in_the_disks_own_words():
    disk = MemoryDisk(bytes_max=100)
    holder = open_holder(disk, bytes_max=10_000)
    reply, _ = serve(holder, disk, put(), BODY)
    assert isinstance(reply, Refused) and "no space left" in reply.reason
    assert holder.bytes_used == 0
    disk.bytes_max = 10_000
    assert isinstance(serve(holder, disk, put(), BODY)[0], Kept)
    disk.is_broken = True
    assert isinstance(serve(holder, disk, get())[0], Refused)  # not "no": it may be readable tomorrow
    disk.is_broken = False
    assert isinstance(serve(holder, disk, get())[0], Fragment)


def test_a_fragment_larger_than_a_frame_is_refused():
    big = bytes(FRAGMENT_BYTES_MAX + 1)
    step = Holder(bytes_max=10**9).answer(put(body=big), big)
    assert isinstance(step, Answer) and isinstance(step.reply, Refused)


def test_a_put_waits_for_the_deletion_of_its_name():
    disk = MemoryDisk()
    holder = open_holder(disk, bytes_max=10_000)
    serve(holder, disk, put(), BODY)
    dropping = holder.answer(drop_all(5, APP))
    assert isinstance(dropping, Delete)
    early = holder.answer(put(), BODY)
    assert isinstance(early, Answer) and isinstance(early.reply, Refused)
    carry_out(holder, disk, dropping)
    assert isinstance(serve(holder, disk, put(), BODY)[0], Kept)
    assert isinstance(serve(open_holder(disk, bytes_max=10_000), disk, get())[0], Fragment)


def test_a_read_that_a_drop_overtakes_is_no_damage():
    disk = MemoryDisk()
    holder = open_holder(disk, bytes_max=10_000)
    serve(holder, disk, put(), BODY)
    load = holder.answer(get())
    assert isinstance(load, Load)
    serve(holder, disk, drop_all(5, APP))
    serve(holder, disk, put(), BODY)
    assert isinstance(holder.loaded(load, None).reply, Refused)
    assert holder.damaged == {}
    assert isinstance(serve(holder, disk, get())[0], Fragment)


def test_a_drop_that_a_crash_cuts_short_is_done_by_the_next():
    disk = MemoryDisk()
    holder = open_holder(disk, bytes_max=100_000)
    for epoch in range(4):
        serve(holder, disk, put(a_name(epoch=epoch)), BODY)
    disk.crash_at = "delete"
    drop = DropFragments(3, APP, "count/0", 1, 2, ())
    with pytest.raises(Crash):
        serve(holder, disk, drop)
    disk.crash_at = None
    again = open_holder(disk, bytes_max=100_000)
    assert isinstance(serve(again, disk, get(a_name(epoch=0)))[0], Fragment)
    serve(again, disk, drop)
    assert disk.names() == sorted(file_name(a_name(epoch=it)) for it in (2, 3))


def test_other_apps_and_instances_do_not_notice_a_drop(disk):
    holder = open_holder(disk, bytes_max=100_000)
    others = [a_name(instance="count/1"), a_name(app="c" * 64)]
    for name in (a_name(), *others):
        serve(holder, disk, put(name), BODY)
    serve(holder, disk, DropFragments(3, APP, "count/0", 9, 9, ()))
    assert disk.names() == sorted(file_name(it) for it in others)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_flipped_bit_of_a_file_is_noticed_and_the_fragment_can_be_written_anew(data):
    disk = MemoryDisk()
    serve(open_holder(disk, bytes_max=10_000), disk, put(), BODY)
    [name] = disk.names()
    at = data.draw(st.integers(0, disk.size(name) - 1))
    disk.flip(name, at, bit=data.draw(st.integers(0, 7)))
    holder = open_holder(disk, bytes_max=10_000)
    reply, _ = serve(holder, disk, get(is_probe=True))
    assert isinstance(reply, NoFragment)
    assert list(holder.damaged) == [name]
    assert holder.bytes_used == disk.size(name)
    assert isinstance(serve(holder, disk, put(), BODY)[0], Kept)
    assert holder.damaged == {}
    assert bytes(serve(holder, disk, get())[1]) == BODY


@given(st.integers(0, 900), st.binary(max_size=50))
def test_a_torn_or_foreign_file_does_not_count(size, rubbish):
    whole = file_of(Held(a_name(), len(BODY), digest_of(BODY)), BODY)
    for content in (whole[: min(size, len(whole) - 1)], rubbish, whole + b"x"):
        disk = MemoryDisk()
        disk.files[file_name(a_name())] = content
        disk.files["register"] = b"not ours"
        holder = open_holder(disk, bytes_max=10_000)
        assert list(holder.damaged) == [file_name(a_name())]
        assert isinstance(serve(holder, disk, get())[0], NoFragment)
        with pytest.raises(Damaged):
            read_file(content, a_name())


def test_a_file_in_anothers_place_does_not_count():
    disk = MemoryDisk()
    holder = open_holder(disk, bytes_max=10_000)
    for index in range(2):
        serve(holder, disk, put(a_name(index)), BODY)
    disk.files[file_name(a_name(0))] = disk.files[file_name(a_name(1))]
    assert isinstance(serve(holder, disk, get(a_name(0)))[0], NoFragment)
    assert list(open_holder(disk, bytes_max=10_000).damaged) == [file_name(a_name(0))]


def test_names_that_look_alike_are_different_files():
    names = [
        a_name(instance=it, app=app) for it in ("a/b", "a-b", "ä" * 60, "a.b") for app in ("x", APP, APP[:-1] + "c")
    ]
    files = {file_name(it) for it in names}
    assert len(files) == len(names)
    assert all(set(it) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_") and len(it) < 200 for it in files)


def test_the_list_comes_in_pages_that_fit_a_message():
    disk = MemoryDisk()
    holder = open_holder(disk, bytes_max=10**6)
    names = [a_name(it, instance="i" * 128, generation=2**63, epoch=2**63) for it in range(PAGE_MAX + 3)]
    for name in names:
        serve(holder, disk, put(name), BODY)
    first, second = (serve(holder, disk, ListFragments(1, APP, skip))[0] for skip in (0, PAGE_MAX))
    assert isinstance(first, Fragments) and isinstance(second, Fragments)
    assert (first.is_more, second.is_more) == (True, False)
    assert [it.fragment for it in (*first.held, *second.held)] == names
    assert len(encode(first)) < CONTROL_BYTES_MAX


@given(st.binary(max_size=200))
def test_rubbish_is_no_header(rubbish):
    with pytest.raises(Damaged):
        read_header(rubbish)
    with pytest.raises(Damaged):
        read_header(b"SHF1" + rubbish)
