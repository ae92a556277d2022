"""Look at this machine: what it has, and how much of it is in use."""

import os
from typing import Final

from overlay.vitals import LOAD_MAX, Vitals

APPS_SHARE: Final = 0.75
"""Of the memory, for worker processes of apps; the rest is for the peer, its buffers and the system."""
APPS_MIB_UNKNOWN: Final = 512
"""Where the system does not say what it has."""


def measure_vitals() -> Vitals:
    """Cores and memory that this process may use, and the load of the last minute for each core."""
    cores = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    load = min(os.getloadavg()[0] / cores, LOAD_MAX)
    return Vitals(cores=cores, memory_mib=_memory_mib(), slots=cores, slots_used=0, load=load)


def memory_for_apps_mib() -> int:
    """What apps may have here unless a person says otherwise."""
    return int(_memory_mib() * APPS_SHARE) or APPS_MIB_UNKNOWN


def _memory_mib() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (ValueError, OSError):
        return 0
