"""One host's share of an app, as facts for a person: what `Inquire` answers, and what metrics are made of."""

from __future__ import annotations

from typing import Any

from dataflow.hosting.assignment import InstanceId, sink_instance, sink_name
from dataflow.plan import Plan
from overlay.ids import PeerId, short
from peer.tenant import Tenant

TOLD_MAX = 100
"""Instances of one app on one host that an answer names: it holds 48 KiB."""


def instance_name(plan: Plan, instance: InstanceId) -> str:
    """What a person calls it: the name of its stage or sink."""
    return sink_name(plan, instance) if instance.is_sink else plan.stages[instance.stage].name


def facts_of(tenant: Tenant, me: PeerId, *, load: float) -> dict[str, Any]:
    share = tenant.runner.share if tenant.runner else None
    return {
        "state": str(tenant.state),
        "reason": tenant.reason,
        "generation": tenant.generation,
        "slots": tenant.slots,
        "memory_mib": tenant.memory_mib,
        "scheduler": short(tenant.scheduler.peer) if tenant.scheduler else "",
        "load": round(load, 3),
        "contacts": _contacts(tenant),
        "sinks": _sink_places(tenant),
        "instances": instances_of(tenant, me)[:TOLD_MAX],
        "kept_bytes": share.kept_bytes() if share else 0,
        "late": share.side_rows["late"] if share else 0,
        "dead_letters": share.side_rows["dead_letters"] if share else 0,
        "streams": {name: sink.kept.rows for name, sink in tenant.sinks.items()},
    }


def instances_of(tenant: Tenant, me: PeerId) -> list[dict[str, Any]]:
    """What of it runs here. A watermark that there is not (yet, or no more) is None."""
    if tenant.runner is None or tenant.plan is None:
        return []
    share = tenant.runner.share
    queued, tally = share.queued(), share.tally
    found = []
    for it in share.assignment.on(me):
        rows, size = queued[it]
        found.append(
            {
                "instance": str(it),
                "name": instance_name(tenant.plan, it),
                "rows_in": tally.rows_in[it],
                "bytes_in": tally.bytes_in[it],
                "rows_out": tally.rows_out[it],
                "bytes_out": tally.bytes_out[it],
                "queued_rows": rows,
                "queued_bytes": size,
                "watermark_us": share.instance(it).watermark_us,
            }
        )
    return found


def ending_of(tenant: Tenant) -> str:
    """What to say when it is over: why, and what it had counted here."""
    rows = sum(sink.kept.rows for sink in tenant.sinks.values())
    sides = tenant.runner.share.side_rows if tenant.runner else {}
    counted = [f"{rows:,} rows reached sinks here"] * bool(tenant.sinks)
    counted += [f"{count:,} {port.replace('_', ' ')}" for port, count in sides.items() if count]
    return "; ".join(filter(None, [tenant.reason, ", ".join(counted)])) or "nothing is left to do"


def reasons_facts(tenant: Tenant) -> dict[str, Any]:
    """Where every instance of an app is, and the reasons, as its charter has them."""
    if tenant.charter is None or tenant.plan is None:
        return {"places": [], "reasons": ""}
    places = [
        [str(it.instance), instance_name(tenant.plan, it.instance), short(it.peer)]
        for it in tenant.charter.assignment.places[: 4 * TOLD_MAX]
    ]
    return {"places": places, "reasons": tenant.charter.reasons}


def _contacts(tenant: Tenant) -> list[list[Any]]:
    contacts = tenant.charter.contacts if tenant.charter else ()
    return [[it.peer, it.host, it.port, it.zone, it.boot_ms] for it in contacts]


def _sink_places(tenant: Tenant) -> dict[str, str]:
    if tenant.charter is None or tenant.plan is None:
        return {}
    assignment = tenant.charter.assignment
    return {name: short(assignment.peer_of(sink_instance(tenant.plan, name))) for name in tenant.plan.sinks}
