"""What holders may drop once an epoch is committed: all but two committed snapshots and what these build on.

The question names a floor, the older of the two, and every part below the floor that either of them still needs.
That makes a late or repeated question harmless: a later snapshot builds on nothing below an earlier floor that the
snapshot at that floor did not build on too, so an old question never drops what a new manifest names. Snapshots
that were never committed fall below the floor by themselves, because a rollback begins a later generation.

Nobody needs to remember a drop: what one of them missed, because the holder was away or the put came late, the next
takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from recovery.custody.messages import DropFragments, Place
from recovery.manifest import Manifest

COMMITTED_KEPT = 2


def drop_before(ask: int, committed: Sequence[Manifest]) -> DropFragments:
    """`committed`: the newest committed snapshots of one instance, in any order; with only one, that is the floor."""
    assert committed and len({(it.app, it.instance) for it in committed}) == 1
    kept = sorted(committed, key=lambda it: (it.generation, it.epoch))[-COMMITTED_KEPT:]
    floor = (kept[0].generation, kept[0].epoch)
    below = {part.place for it in kept for part in it.parts if (part.generation, part.epoch) < floor}
    return DropFragments(
        ask, kept[0].app, kept[0].instance, *floor, tuple(Place(*place) for place in sorted(below))
    )
