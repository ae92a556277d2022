"""Look at this machine: what it has, and how much of it is in use."""

import os

from overlay.vitals import LOAD_MAX, Vitals


def measure_vitals() -> Vitals:
    """Cores and memory that this process may use, and the load of the last minute for each core."""
    cores = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    load = min(os.getloadavg()[0] / cores, LOAD_MAX)
    return Vitals(cores=cores, memory_mib=_memory_mib(), slots=cores, slots_used=0, load=load)


def _memory_mib() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (ValueError, OSError):
        return 0
