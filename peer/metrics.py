"""What this peer counts, put into the families that docs/metrics.md documents.

Gathered when somebody asks, from what the machines count anyway: between two looks it costs nothing. Apps that are over
are not in it, so the page is bounded by the instances that the device takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peer.answers import resident_bytes
from peer.app_facts import instances_of
from peer.app_host import AppHost
from peer.histogram import Histogram
from peer.metrics_text import Family, page
from peer.runtime import Runtime
from peer.tenant import Tenant

INSTANCE_FAMILIES = {
    "rows_in": ("shoal_rows_in_total", "counter", "Rows that an instance has worked on."),
    "bytes_in": ("shoal_bytes_in_total", "counter", "Bytes that an instance has worked on."),
    "rows_out": ("shoal_rows_out_total", "counter", "Rows that an instance has handed on."),
    "bytes_out": ("shoal_bytes_out_total", "counter", "Bytes that an instance has handed on."),
    "queued_rows": ("shoal_queued_rows", "gauge", "Rows that wait in front of an instance."),
    "queued_bytes": ("shoal_queued_bytes", "gauge", "Bytes that wait in front of an instance."),
}
EDGE_FAMILIES = {
    "credit_messages": ("shoal_edge_credit_messages", "Messages that may still be sent on an edge to another peer."),
    "credit_bytes": ("shoal_edge_credit_bytes", "Bytes that may still be sent on an edge to another peer."),
    "under_way_messages": ("shoal_edge_under_way_messages", "Messages sent on an edge and not worked on yet."),
    "under_way_bytes": ("shoal_edge_under_way_bytes", "Bytes sent on an edge and not worked on yet."),
}
VERDICTS = {"suspected": "Suspected", "confirmed": "Confirmed", "false": "Trusted"}


def metrics_page(runtime: Runtime, host: AppHost, *, started_s: float) -> str:
    families = [*_app_families(runtime, host), *_ring_families(runtime, host), *_process_families(started_s)]
    return page(families)


def _app_families(runtime: Runtime, host: AppHost) -> Iterator[Family]:
    counts = {name: Family(*family) for name, family in INSTANCE_FAMILIES.items()}
    edges = {name: Family(family, "gauge", help_) for name, (family, help_) in EDGE_FAMILIES.items()}
    watermark = Family("shoal_watermark_seconds", "gauge", "Event time up to which an instance has seen all rows.")
    sides = Family("shoal_side_rows_total", "counter", "Rows that were set aside: late, or dead letters.")
    taken = Family("shoal_sink_rows_total", "counter", "Rows that a sink has taken.")
    ages = Family("shoal_latency_seconds", "histogram", "Time of rows from their source until a sink has taken them.")
    me = runtime.nodes[0].me.peer if runtime.nodes else None
    for tenant in host.tenants.values():
        if tenant.share is None or tenant.is_over or me is None:
            continue
        app = {"app": tenant.name, "app_id": tenant.app[:8]}
        for it in instances_of(tenant, me):
            labels = app | {"stage": it["name"], "instance": it["instance"]}
            for name, family in counts.items():
                family.add(it[name], **labels)
            if it["watermark_us"] is not None:
                watermark.add(it["watermark_us"] / 1e6, **labels)
        _add_edges(edges, tenant, app)
        for port, rows in tenant.share.side_rows.items():
            sides.add(rows, **app, port=port)
        for name, stream in tenant.streams.items():
            taken.add(stream.end, **app, stream=name)
            ages.add_histogram(host.shell.ages.get((tenant.app, name), Histogram()), **app, stream=name)
    yield from (*counts.values(), watermark, sides, taken, ages, *edges.values())


def _add_edges(families: dict[str, Family], tenant: Tenant, app: dict[str, str]) -> None:
    assert tenant.share is not None
    for edge in tenant.share.edges():
        for name, family in families.items():
            labels = {"edge": str(edge.edge), "writer": edge.writer, "reader": edge.reader}
            family.add(getattr(edge, name), **app, **labels)


def _ring_families(runtime: Runtime, host: AppHost) -> Iterator[Family]:
    counters = runtime.counters
    states = Family("shoal_apps", "gauge", "Apps that have a share on this peer, by state.")
    for state in sorted({str(it.state) for it in host.tenants.values()}):
        states.add(sum(str(it.state) == state for it in host.tenants.values()), state=state)
    slots = Family("shoal_slots", "gauge", "Instances that this peer takes.")
    slots.add(host.ledger.slots)
    used = Family("shoal_slots_used", "gauge", "Instances that this peer has.")
    used.add(host.ledger.slots_used)
    known = Family("shoal_peers_known", "gauge", "Other peers that this one knows.")
    known.add(len({it.peer for node in runtime.nodes for it in node.view.contacts()}))
    suspects = Family("shoal_peers_suspected", "gauge", "Peers that are suspected now.")
    suspects.add(len({it for node in runtime.nodes for it in node.view.suspects}))
    suspicion = Family("shoal_suspicion_total", "counter", "Suspicions: raised, confirmed, and taken back (false).")
    for verdict, event in VERDICTS.items():
        suspicion.add(counters[f"event.{event}"], verdict=verdict)
    connections = Family("shoal_connections", "gauge", "Open connections to other devices.")
    connections.add(runtime.connection_count)
    frames = Family("shoal_frames_total", "counter", "Frames received and sent.")
    frames.add(counters["received"], direction="in", kind="control")
    frames.add(counters["data.received"], direction="in", kind="data")
    frames.add(counters["data.sent"], direction="out", kind="data")
    refused = Family("shoal_refused_total", "counter", "Connections, frames and messages that were refused, by reason.")
    for name in sorted(counters):
        if name.startswith("refused."):
            refused.add(counters[name], reason=name.removeprefix("refused."))
    visits = Family("shoal_visits_total", "counter", "Questions of people who asked from afar (--at).")
    visits.add(counters["visits"])
    yield from (states, slots, used, known, suspects, suspicion, connections, frames, refused, visits)


def _process_families(started_s: float) -> Iterator[Family]:
    facts: list[tuple[str, str, str, Any]] = [
        ("process_cpu_seconds_total", "counter", "CPU time of this process.", time.process_time()),
        ("process_resident_memory_bytes", "gauge", "Memory that this process holds.", resident_bytes()),
        ("process_start_time_seconds", "gauge", "When this process began, in seconds since 1970.", started_s),
        ("process_open_fds", "gauge", "Files and sockets that this process has open.", _open_fds()),
    ]
    for name, kind, help_, value in facts:
        if value is not None:
            family = Family(name, kind, help_)
            family.add(value)
            yield family


def _open_fds() -> int | None:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1  # without the one that lists them
    except OSError:
        return None
