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
    share = tenant.share
    residency = tenant.tenancy.residency
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
        "streams": {name: stream.kept.rows for name, stream in tenant.streams.items()},
        "epoch": residency.committed if residency is not None else 0,
        "members": _members(tenant),
    }


def instances_of(tenant: Tenant, me: PeerId) -> list[dict[str, Any]]:
    """What of it runs here. A watermark that there is not (yet, or no more) is None."""
    share = tenant.share
    if share is None:
        return []
    queued, tally = share.queued(), share.tally
    found = []
    for it in share.assignment.on(me):
        rows, size = queued[it]
        found.append(
            {
                "instance": str(it),
                "name": instance_name(share.plan, it),
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
    rows = sum(stream.kept.rows for stream in tenant.streams.values())
    sides = tenant.share.side_rows if tenant.share else {}
    counted = [f"{rows:,} rows reached sinks here"] * bool(tenant.streams)
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
    if tenant.charter is None:
        return []
    found = [tenant.charter.contact_of(peer) for peer in tenant.charter.assignment.peers()]
    return [[it.peer, it.host, it.port, it.zone, it.boot_ms] for it in found]


def _members(tenant: Tenant) -> list[list[Any]]:
    """Whom to ask to end it: the members of its register, in the order in which they lead."""
    if tenant.charter is None:
        return []
    found = [tenant.charter.record.contact_of(peer) for peer in tenant.charter.record.members]
    return [[it.peer, it.host, it.port, it.zone, it.boot_ms] for it in found if it is not None]


def _sink_places(tenant: Tenant) -> dict[str, str]:
    if tenant.charter is None or tenant.plan is None:
        return {}
    assignment = tenant.charter.assignment
    return {name: short(assignment.peer_of(sink_instance(tenant.plan, name))) for name in tenant.plan.sinks}
