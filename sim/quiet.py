"""Keep the garbage collector out of a long run.

A ring of 10,000 peers holds millions of long-lived objects and hardly any cycle; the collector would walk
them again and again to find nothing, for a third of the run. What exists before is frozen; what the run
makes goes by its reference counts.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_gc() -> Iterator[None]:
    """No collection inside; the previous state and one collection afterwards."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
