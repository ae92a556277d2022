"""Wherever the power goes: what was synced is there, in order, and nothing is invented."""

from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.disk import DiskFull
from recovery.source_log.log import LogDamaged, SourceLog
from sim.disk import DiskFaults, PowerCut, SimDisk

SIZES = [0, 1, 40, 300, 1500]
step = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 4), st.sampled_from(SIZES)),
    st.tuples(st.just("append"), st.integers(1, 4), st.sampled_from(SIZES)),
    st.tuples(st.just("sync"), st.just(0), st.just(0)),
    st.tuples(st.just("trim"), st.integers(0, 100), st.just(0)),
)
lives = st.lists(st.tuples(st.lists(step, max_size=12), st.integers(0, 60)), min_size=1, max_size=4)
mild = st.builds(
    DiskFaults,
    torn=st.sampled_from([0.0, 0.7]),
    full=st.sampled_from([0.0, 0.2]),
    flips_unsynced=st.sampled_from([0.0, 0.7]),
    returns=st.sampled_from([0.0, 0.5, 1.0]),
)


class Story:
    """A source that reads numbered rows through one life after another; what it wrote, and what it was promised."""

    def __init__(self, disk):
        self.disk = disk
        self.written = []  # (start, count, payload), as far as the log took it
        self.promised = 0  # how many of them were synced
        self.committed = 0
        self.serial = 0

    def open(self):
        return SourceLog(self.disk, "in", committed=self.committed, bytes_max=20_000, segment_bytes=2_000)

    def live(self, steps):
        log = self.open()
        self.check(log)
        # What was read back is known now, and the log has synced it.
        for what, number, size in steps:
            if what == "append":
                self.append(log, number, size)
            elif what == "sync":
                log.sync()
                self.promised = len(self.written)
            else:
                self.committed = max(self.committed, log.synced * number // 100)
                log.trim(self.committed)

    def append(self, log, count, size):
        self.serial += 1
        payload = self.serial.to_bytes(4, "big") + bytes(size)
        # Noted first: the power may go after it was written and before we hear of it.
        self.written.append((log.end, count, payload))
        try:
            log.append(0, count, payload)
        except DiskFull:
            self.written.pop()

    def check(self, log):
        found = [(it.start, it.count, bytes(it.payload)) for it in log.read_from(self.committed, bytes_max=1 << 30)]
        needed = [it for it in self.written if it[0] + it[1] > self.committed or it[0] == self.committed == sum(it[:2])]
        assert found == needed[: len(found)], "something was invented or out of order"
        assert len(found) >= len(needed) - (len(self.written) - self.promised), "something synced is lost"
        self.written = self.written[: len(self.written) - len(needed) + len(found)]
        self.promised = len(self.written)


def run(seed, lives, faults):
    disk = SimDisk(Random(seed), faults)
    story = Story(disk)
    for steps, point in lives:
        disk.cut_power_at = disk.points + point if point else 0
        with suppress(PowerCut):
            story.live(steps)
        disk.reboot()
    story.check(story.open())


@given(st.integers(0, 1000), lives, mild)
@settings(max_examples=400, deadline=None)
def test_whatever_the_crash_point_everything_synced_is_there_in_order_and_nothing_is_invented(seed, lives, faults):
    run(seed, lives, faults)


def test_every_point_of_one_life_is_survived():
    steps = [("append", 2, 300), ("append", 1, 1500), ("sync", 0, 0), ("append", 3, 1500), ("trim", 100, 0)] * 4
    for seed in range(5):
        disk = SimDisk(Random(seed))
        Story(disk).live(steps)
        for point in range(1, disk.points + 1):
            run(seed, [(steps, point), (steps[:7], 0)], DiskFaults(torn=0.5, flips_unsynced=0.5))


@given(st.integers(0, 1000), lives)
@settings(max_examples=200, deadline=None)
def test_damage_to_what_was_synced_is_told_or_cut_off_but_never_read_as_rows(seed, lives):
    disk = SimDisk(Random(seed), DiskFaults(flips=0.5))
    story = Story(disk)
    for steps, point in lives:
        disk.cut_power_at = disk.points + point if point else 0
        try:
            story.promised = 0  # damage to the last sync looks like a torn tail
            story.live(steps)
        except PowerCut:
            pass
        except LogDamaged:
            return
        disk.reboot()
    try:
        story.promised = 0
        story.check(story.open())
    except LogDamaged:
        pass
