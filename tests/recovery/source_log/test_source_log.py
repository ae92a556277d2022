"""A log of what a source has read: full, cut short, trimmed, opened again, damaged."""

from random import Random

import pytest

from recovery.disk import DiskError, DiskFull
from recovery.folder import Folder
from recovery.source_log.entry import HEADER_BYTES
from recovery.source_log.log import LogDamaged, LogFull, SourceLog, remove
from sim.disk import DiskFaults, SimDisk

ROWS, END = 0, 3


def read_all(log, offset, bytes_max=1 << 20):
    found = log.read_from(offset, bytes_max=bytes_max)
    return [(it.kind, it.start, it.count, bytes(it.payload), it.skip) for it in found]


def filled(disk, entries=10, **options):
    log = SourceLog(disk, "in", **options)
    for number in range(entries):
        log.append(ROWS, 2, bytes([number]) * 100)
    log.sync()
    return log


def test_a_process_ends_and_the_next_goes_on_with_what_was_read(tmp_path):
    filled(Folder(tmp_path), 3).append(END, 0, b"")
    log = SourceLog(Folder(tmp_path), "in", committed=3)
    assert (log.first, log.end) == (0, 6)
    assert read_all(log, 3) == [(ROWS, 2, 2, b"\x01" * 100, 1), (ROWS, 4, 2, b"\x02" * 100, 0), (END, 6, 0, b"", 0)]
    assert log.append(ROWS, 1, b"more") == 7
    assert read_all(log, 7) == []


def test_a_mark_has_no_width_and_is_read_again_from_its_own_offset():
    log = SourceLog(SimDisk(Random(0)), "in")
    log.append(ROWS, 5, b"rows")
    log.append(END, 0, b"")
    assert [kind for kind, *_ in read_all(log, 5)] == [END]
    assert [kind for kind, *_ in read_all(log, 4)] == [ROWS, END]


def test_a_reader_with_little_room_still_gets_one_entry_at_a_time():
    log = filled(SimDisk(Random(0)), 10, segment_bytes=500)
    offset, seen = 0, []
    while found := log.read_from(offset, bytes_max=1):
        assert len(found) == 1
        seen.append(found[0].payload[0])
        offset = found[0].start + found[0].count
    assert seen == list(range(10))


def test_large_entries_and_small_ones_are_found_from_any_offset(tmp_path):
    log = SourceLog(Folder(tmp_path), "in", segment_bytes=3 << 20)
    sizes = [10, 700_000, 3, 1_500_000, 2_000_000, 5, 5, 5, 900_000]
    for number, size in enumerate(sizes):
        log.append(ROWS, 3, bytes([number]) * size)
    for log_ in (log, SourceLog(Folder(tmp_path), "in")):
        for offset in range(27):
            first, *rest = log_.read_from(offset, bytes_max=1 << 30)
            assert (first.start, first.skip) == (offset // 3 * 3, offset % 3)
            assert [len(it.payload) for it in (first, *rest)] == sizes[offset // 3 :]


def test_a_full_log_refuses_and_takes_again_when_an_epoch_was_committed():
    log = SourceLog(SimDisk(Random(0)), "in", bytes_max=4000, segment_bytes=1000)
    with pytest.raises(LogFull, match="wait for an epoch to be committed"):
        while True:
            log.append(ROWS, 1, bytes(200))
    end, size = log.end, log.size_bytes
    assert len(read_all(log, 0)) == end and size <= 4000
    log.sync()
    log.trim(end)
    assert log.size_bytes <= 1000 and log.first < log.end == end
    assert log.append(ROWS, 1, bytes(200)) == end + 1


def test_an_entry_that_can_never_fit_is_told_apart_from_a_full_log():
    log = SourceLog(SimDisk(Random(0)), "in", bytes_max=4000)
    with pytest.raises(DiskError, match="smaller batches") as error:
        log.append(ROWS, 1, bytes(2000))
    assert not isinstance(error.value, DiskFull)


def test_a_full_disk_leaves_the_log_as_it_was():
    log = SourceLog(SimDisk(Random(2), DiskFaults(room_bytes=3 * (100 + HEADER_BYTES) + 60)), "in")
    for number in range(3):
        log.append(ROWS, 2, bytes([number]) * 100)
    for _ in range(5):
        with pytest.raises(DiskFull):
            log.append(ROWS, 2, bytes(100))
    assert [payload[0] for _, _, _, payload, _ in read_all(log, 0)] == [0, 1, 2]
    assert log.append(ROWS, 1, b"") == 7  # a small one still fits


def test_trimming_keeps_what_is_needed_and_the_end_survives_it():
    disk = SimDisk(Random(4))
    log = filled(disk, 10, segment_bytes=300)
    log.trim(9)
    assert log.first <= 9 and [start for _, start, *_ in read_all(log, 9)] == [8, 10, 12, 14, 16, 18]
    with pytest.raises(LogDamaged, match="0 cannot be read again"):
        log.read_from(0, bytes_max=100)
    log.trim(log.end)
    disk.reboot()
    assert SourceLog(disk, "in", committed=20).end == 20


def test_an_empty_log_begins_at_what_was_committed_elsewhere():
    log = SourceLog(SimDisk(Random(0)), "in", committed=700)
    assert (log.first, log.end, log.read_from(700, bytes_max=10)) == (700, 700, [])
    assert log.append(ROWS, 2, b"x") == 702


def test_a_log_that_does_not_hold_what_was_committed_is_refused():
    disk = SimDisk(Random(0))
    filled(disk, 3)
    with pytest.raises(LogDamaged, match="holds 0 to 6, but 9 was committed"):
        SourceLog(disk, "in", committed=9)
    remove(disk, "in")
    assert SourceLog(disk, "in", committed=9).end == 9


def test_a_bit_flips_in_the_middle_and_the_log_is_not_opened():
    for position in (0, 20, HEADER_BYTES + 5):  # in a header, in its sums, in the bytes
        disk = SimDisk(Random(0))
        log = filled(disk, 3)
        log.append(ROWS, 2, b"behind what was synced")
        log.sync()
        disk.flip("in.0000000001", 8 * (position + 2 * (HEADER_BYTES + 100)))
        with pytest.raises(LogDamaged, match="no sound entry at byte 280"):
            SourceLog(disk, "in")


def test_a_file_that_was_not_the_last_is_damaged_and_reading_says_so():
    disk = SimDisk(Random(0))
    filled(disk, 10, segment_bytes=300)
    disk.flip("in.0000000002", 8 * (HEADER_BYTES + 5))
    log = SourceLog(disk, "in")
    assert [start for _, start, *_ in read_all(log, 16)] == [16, 18]
    with pytest.raises(LogDamaged, match=r"in\.0000000002 has no sound entry"):
        log.read_from(0, bytes_max=1 << 20)
    disk.flip("in.0000000002", 8 * 3)
    with pytest.raises(LogDamaged, match=r"in\.0000000002 has no sound entry at byte 0"):
        SourceLog(disk, "in")


def test_a_missing_file_is_a_hole_if_it_is_needed():
    disk = SimDisk(Random(0))
    filled(disk, 10, segment_bytes=300)
    disk.delete("in.0000000002")
    with pytest.raises(LogDamaged, match="but 3 was committed"):
        SourceLog(disk, "in", committed=3)


def test_after_a_failed_sync_nothing_is_taken_any_more():
    class Broken(SimDisk):
        def sync(self, name):
            raise DiskError(f"{name}: Input/output error; look after the disk, then start the peer again")

    log = SourceLog(Broken(Random(0)), "in")
    log.append(ROWS, 1, b"x")
    for call in (log.sync, log.sync, lambda: log.append(ROWS, 1, b"y")):
        with pytest.raises(DiskError, match="Input/output error"):
            call()
    assert log.synced == 0


def test_a_quiet_source_costs_no_fsync():
    disk = SimDisk(Random(0))
    log = filled(disk)
    before = disk.syncs
    assert [log.sync() for _ in range(5)] == [20] * 5 and disk.syncs == before


def test_two_logs_in_one_folder_leave_each_other_alone():
    disk = SimDisk(Random(0))
    one, other = SourceLog(disk, "in"), SourceLog(disk, "in.0")
    one.append(ROWS, 1, b"one")
    other.append(ROWS, 4, b"other")
    assert (SourceLog(disk, "in").end, SourceLog(disk, "in.0").end) == (1, 4)


def test_a_log_whose_newest_file_was_lost_still_knows_where_it_was():
    disk = SimDisk(Random(0), DiskFaults(returns=0.0))
    log = filled(disk, 10, segment_bytes=300)
    log.append(ROWS, 1, bytes(250))  # a file of its own, not synced
    log.trim(20)
    disk.truncate("in.0000000006", 0)
    disk.reboot()
    with pytest.raises(LogDamaged, match="but 0 was committed"):
        SourceLog(disk, "in")
    assert SourceLog(disk, "in", committed=20).end == 20
