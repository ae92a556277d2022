"""Keep this worker process within the limits of its app: the kernel counts, nobody has to look.

`RLIMIT_AS` makes an allocation fail, which Python raises as MemoryError; the worker then ends with `NO_MEMORY_EXIT`.
`RLIMIT_CPU` is moved on before each batch; a process that reaches it gets SIGXCPU, which ends it whatever it is doing,
also inside a C function that never comes back to the interpreter.

Rejected: a total of CPU seconds (every stream reaches it one day); a handler for SIGXCPU (Python runs it only
between two byte codes); watching the resident set from outside (a device swaps before anybody looks).
"""

from __future__ import annotations

import math
import resource
from pathlib import Path

from dataflow.bundles.limits import Limits

NO_MEMORY_EXIT = 77
MIB = 1 << 20
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve address space by the GiB, which counts here
    "MALLOC_ARENA_MAX": "2",  # each further one reserves 64 MiB
}
"""What a limited worker is started with, so that address space means memory."""


def limit_memory(limits: Limits) -> None:
    """From here on, so much more than the interpreter and the engine already have."""
    before = _address_space_bytes()
    if before is not None:
        _lower(resource.RLIMIT_AS, before + limits.memory_mib * MIB)
    _lower(resource.RLIMIT_CORE, 0)  # a core file of a gigabyte helps nobody on a device


def limit_next_batch(limits: Limits) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + limits.batch_cpu_s)


def _lower(kind: int, wanted: int) -> None:
    """Set the soft limit; the hard one stays, so that the next batch may move it on."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _address_space_bytes() -> int | None:
    """None where the system does not tell: there, memory is not limited."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pages * resource.getpagesize()
