"""What the hosts of an app told, put together: rows of each stream, late rows, queues, the watermark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from overlay.contact import Contact
from overlay.ids import short
from peer.app_asking import Told
from peer.complaint import Complaint

_ADDED = ("late", "dead_letters", "kept_bytes")


def summary_of(told: Mapping[Contact, Told]) -> dict[str, Any]:
    """Sums over the hosts that answered. The watermark is the lowest of all instances that have one."""
    streams: dict[str, int] = {}
    sums = dict.fromkeys(_ADDED, 0)
    queued_rows = queued_bytes = 0
    marks: list[int] = []
    hosts: dict[str, Any] = {}
    for contact, facts in told.items():
        if isinstance(facts, Complaint):
            reason = facts.message.partition("\n")[0]
            hosts[short(contact.peer)] = {"zone": contact.zone, "state": "silent", "reason": reason, "instances": []}
            continue
        hosts[short(contact.peer)] = {"zone": contact.zone, **facts}
        streams |= facts["streams"]
        for name in _ADDED:
            sums[name] += facts[name]
        for it in facts["instances"]:
            queued_rows += it["queued_rows"]
            queued_bytes += it["queued_bytes"]
            marks += [it["watermark_us"]] if it["watermark_us"] is not None else []
    return {
        "rows": dict(sorted(streams.items())),
        **sums,
        "queued_rows": queued_rows,
        "queued_bytes": queued_bytes,
        "watermark": time_text(min(marks, default=None)),
        "hosts": hosts,
    }


def time_text(time_us: int | None) -> str | None:
    """
    >>> time_text(1_767_225_600_000_000), time_text(1 << 60), time_text(None)
    ('2026-01-01T00:00:00Z', '1152921504606846976 us', None)
    """
    if time_us is None:
        return None
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{time_us} us"
