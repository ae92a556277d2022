"""What the running peer answers its local command line.

Reads the nodes' views and gives plain values; `leave`, `route` and `deny` hand a wish on to the runtime.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from overlay.contact import Contact
from overlay.ids import Key, from_hex, key_of, to_hex
from overlay.routing import RouteResult
from peer.complaint import Complaint
from peer.control_trio import Answers
from peer.runtime import Runtime


def answers_of(runtime: Runtime, *, started_s: float, more: Callable[[], dict[str, Any]] = dict) -> Answers:
    """Every verb of the control socket that is about the peer itself. `more`: what else its status tells."""

    async def status(arguments: dict[str, Any]) -> Any:
        return _status(runtime, now_s=time.time(), started_s=started_s) | more()

    async def peers(arguments: dict[str, Any]) -> Any:
        return _peers(runtime)

    async def route(arguments: dict[str, Any]) -> Any:
        return await _route(runtime, str(arguments.get("key", "")))

    async def leave(arguments: dict[str, Any]) -> Any:
        me = _nodes(runtime)[0].me
        runtime.stop()
        return {"peer": to_hex(me.peer)}

    async def deny(arguments: dict[str, Any]) -> Any:
        return _deny(runtime, arguments.get("denylist"))

    return {"status": status, "peers": peers, "route": route, "leave": leave, "deny": deny}


def parse_key(text: str) -> Key:
    """40 hexadecimal digits are a key; any other text is a name, whose hash is its key.

    >>> parse_key("0" * 39 + "7")
    7
    >>> parse_key("alerts") == key_of("alerts")
    True
    """
    try:
        return from_hex(text)
    except ValueError:
        return key_of(text)


def _nodes(runtime: Runtime) -> tuple[Any, ...]:
    if not runtime.nodes:
        raise Complaint("This peer is still starting.", "Try again in a second.")
    return runtime.nodes


def _status(runtime: Runtime, *, now_s: float, started_s: float) -> dict[str, Any]:
    nodes = _nodes(runtime)
    known = _peers(runtime)
    return {
        "peer": to_hex(nodes[0].me.peer),
        "virtual": [to_hex(node.me.peer) for node in nodes[1:]],
        "address": runtime.listening_address,
        "zone": runtime.config.zone,
        "secure": not runtime.config.insecure,
        "joined": all(node.is_member for node in nodes),
        "leaves": sum(row["leaf"] for row in known),
        "known": len(known),
        "suspected": sum(row["suspected"] for row in known),
        "uptime_s": round(now_s - started_s, 1),
        "cpu_s": round(time.process_time(), 2),
        "rss_mib": round(resident_bytes() / 2**20, 1),
        "counters": dict(sorted(runtime.counters.items())),
    }


def _peers(runtime: Runtime) -> list[dict[str, Any]]:
    """All that any of our nodes knows, each once, as the node nearest to it sees it; nearest to us first."""
    nodes = _nodes(runtime)
    rows: dict[int, dict[str, Any]] = {}
    for node in nodes:
        for contact in node.view.contacts():
            row = _row(node.view, contact)
            known = rows.setdefault(contact.peer, row)
            known["leaf"] = known["leaf"] or row["leaf"]
    return [rows[peer] for peer in sorted(rows, key=nodes[0].me.peer.__xor__)]


def _row(view: Any, contact: Contact) -> dict[str, Any]:
    peer = contact.peer
    return {
        "peer": to_hex(peer),
        "zone": contact.zone,
        "address": contact.address,
        "rtt_ms": round(view.facts.rtt_s(peer) * 1000, 3) if view.facts.is_measured(peer) else None,
        "load": round(view.facts.load(peer), 3),
        "leaf": peer in view.leaves,
        "suspected": peer in view.suspects,
    }


async def _route(runtime: Runtime, text: str) -> dict[str, Any]:
    _nodes(runtime)
    key = parse_key(text)
    started = trio.current_time()
    result = await runtime.route(key, b"")
    took_ms = (trio.current_time() - started) * 1000
    if not isinstance(result, RouteResult):
        raise Complaint(f"Nobody on the way to key {to_hex(key)[:8]} answered.", "Look at `peer peers`, try again.")
    return {
        "key": to_hex(key),
        "owner": to_hex(result.owner.peer),
        "took_ms": round(took_ms, 3),
        "hops": [
            {
                "hop": number,
                "peer": to_hex(hop.contact.peer),
                "zone": hop.contact.zone,
                "address": hop.contact.address,
                # 0 is a next hop that was not measured yet; the last hop has none.
                "rtt_to_next_ms": hop.rtt_us / 1000 if hop.rtt_us else None,
            }
            for number, hop in enumerate(result.hops)
        ],
    }


def _deny(runtime: Runtime, digits: Any) -> dict[str, Any]:
    _nodes(runtime)
    try:
        is_news = runtime.deny(bytes.fromhex(digits))
    except (TypeError, ValueError) as error:  # a DenylistError too
        raise Complaint(f"That is no denylist of this cluster: {error}.", "Sign one with `peer revoke`.") from None
    return {"is_news": is_news}


def resident_bytes() -> int:
    """Memory that this process holds now; where the system does not say, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    import os

    return pages * os.sysconf("SC_PAGE_SIZE")
