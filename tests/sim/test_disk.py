"""A disk keeps what it promised, and loses the rest as it likes."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.disk import DiskFull
from sim.disk import DiskFaults, PowerCut, SimDisk

seeds = st.integers(0, 10_000)
tearing = st.builds(DiskFaults, torn=st.sampled_from([0.0, 1.0]), flips_unsynced=st.sampled_from([0.0, 1.0]))


@given(seeds, tearing, st.binary(min_size=1, max_size=3000), st.binary(max_size=3000))
def test_what_was_synced_survives_and_the_rest_may_be_torn(seed, faults, kept, lost):
    disk = SimDisk(Random(seed), faults)
    disk.append("log", kept)
    disk.sync("log")
    disk.append("log", lost)
    disk.crash()
    disk.reboot()
    found = disk.get("log")
    assert found is not None and found.startswith(kept) and len(found) <= len(kept + lost)


@given(seeds)
def test_a_put_is_all_or_nothing_wherever_the_power_goes(seed):
    seen = set()
    for point in range(1, 4):
        disk = SimDisk(Random(seed))
        disk.put("file", b"old")
        disk.cut_power_at = disk.points + point
        with pytest.raises(PowerCut):
            disk.put("file", b"new and longer")
        disk.reboot()
        seen.add((point, disk.get("file")))
    assert (1, b"old") in seen and (3, b"new and longer") in seen
    assert {content for _, content in seen} == {b"old", b"new and longer"}


def test_what_was_put_or_cut_off_stays_so_and_what_was_deleted_may_come_back():
    found = set()
    for seed in range(40):
        disk = SimDisk(Random(seed))
        disk.put("gone", b"x")
        disk.append("log", b"abcdef")
        disk.sync("log")
        disk.truncate("log", 2)
        disk.delete("gone")
        disk.reboot()
        assert disk.get("log") == b"ab"
        found.add(disk.get("gone"))
    assert found == {None, b"x"}


def test_nothing_happens_between_a_power_cut_and_a_reboot():
    disk = SimDisk(Random(1))
    disk.put("file", b"x")
    disk.crash()
    for call in (lambda: disk.get("file"), lambda: disk.append("log", b""), disk.names):
        with pytest.raises(PowerCut):
            call()
    disk.reboot()
    assert disk.get("file") == b"x"


def test_a_full_disk_says_so_and_a_slow_one_says_how_long():
    disk = SimDisk(Random(3), DiskFaults(room_bytes=10, slow_s=2.0))
    disk.append("log", b"12345678")
    with pytest.raises(DiskFull):
        disk.append("log", b"more than fits")
    with pytest.raises(DiskFull):
        disk.put("file", b"more than fits")
    assert disk.get("file") is None and disk.size("log") >= 8
    disk.sync("log")
    assert 0.0 < disk.take_delay_s() <= 2.0 and disk.take_delay_s() == 0.0


def test_a_flipped_bit_is_one_bit():
    disk = SimDisk(Random(5), DiskFaults(flips=1.0))
    disk.put("file", bytes(100))
    disk.reboot()
    found = disk.get("file")
    assert found is not None and sum(byte.bit_count() for byte in found) == 1
