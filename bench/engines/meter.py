"""What a process and everything it started have cost: CPU-seconds and peak memory.

Read from /proc, because a JVM or a worker process costs its user as much as the process that started it. A child that
has ended is in its parent's account once that has waited for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


def descendants() -> list[int]:
    """Ids of the processes below this one."""
    children: dict[int, list[int]] = {}
    for pid, parent, _ in _processes():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def cpu_s() -> float:
    """CPU-seconds of this process, of those below it, and of those that it has seen end."""
    below = set(descendants())
    ended = os.times()
    living = sum(spent for pid, _, spent in _processes() if pid in below)
    return time.process_time() + ended.children_user + ended.children_system + living


def peak_rss_mib() -> float:
    """The highest resident memory of this process, plus that of each process below it."""
    return sum(_peak_kib(pid) for pid in (os.getpid(), *descendants())) / 1024


def forget_peaks() -> None:
    """Begin a new peak, where the system lets us: for processes that serve several runs."""
    for pid in (os.getpid(), *descendants()):
        try:
            (PROC / str(pid) / "clear_refs").write_text("5")
        except OSError:
            continue


def _processes() -> Iterator[tuple[int, int, float]]:
    """(id, parent, CPU-seconds with those of its ended children) of every process."""
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                # The name stands in brackets and may hold anything: count from its end.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            yield int(folder.name), int(fields[1]), sum(map(int, fields[11:15])) / TICKS_A_SECOND


def _peak_kib(pid: int) -> int:
    try:
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
