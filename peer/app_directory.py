"""Which apps there are, and who keeps them: one record for each peer that keeps any.

The host of an app's first sink is its *keeper*: it publishes the app under one name that everybody knows, and tells
whoever asks where the other hosts live. So any peer can list all apps, find one by a part of its name, and reach its
hosts; and nobody who led a launch is needed afterwards.

A record holds 4 KiB, some forty apps; a peer that keeps more publishes the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, get_args

import msgpack

from overlay.contact import Contact
from overlay.records import VALUE_BYTES_MAX, Record
from overlay.wire import WireContact, WireError
from peer.complaint import Complaint

KEEPER: Final = "keeper"
APPS: Final = "apps"
ALIVE: Final = ("preparing", "ready", "running")
_CONTACT: Final = get_args(WireContact)[1]


@dataclass(frozen=True, slots=True)
class Listed:
    """One app as its keeper lists it."""

    app: str
    name: str
    generation: int
    state: str
    keeper: Contact


def listing_value(keeper: Contact, apps: Iterable[tuple[str, str, int, str]]) -> bytes:
    """(id, name, generation, state) of each app, newest first, as many as fit."""
    kept: list[Any] = []
    raw = b""
    for app, name, generation, state in apps:
        kept.append([bytes.fromhex(app), name, generation, state])
        packed: bytes = msgpack.packb([_CONTACT.pack(keeper), kept])
        if len(packed) > VALUE_BYTES_MAX:
            break
        raw = packed
    return raw


def read_listing(record: Record) -> list[Listed]:
    try:
        contact, apps = msgpack.unpackb(record.value, max_map_len=0, max_ext_len=0)
        keeper = _CONTACT.unpack(contact)
        if keeper.peer != record.publisher:
            raise ValueError("a keeper that names another peer")
        return [
            Listed(app.hex(), str(name), int(generation), str(state), keeper) for app, name, generation, state in apps
        ]
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException) as error:
        raise WireError("bad-listing", str(error)[:80]) from None


def newest(listed: Iterable[Listed]) -> list[Listed]:
    """Each app once, by name: a launch of the same bundle may have made another peer its keeper, and both list it."""
    found: dict[str, Listed] = {}
    for it in listed:
        if it.app not in found or it.generation > found[it.app].generation:
            found[it.app] = it
    return sorted(found.values(), key=lambda it: (it.name, it.app))


def find_app(listed: Iterable[Listed], wanted: str) -> Listed:
    """The one app whose name or id begins like this. Of several lives of a name, the one that is not over."""
    known = list(listed)
    exact = [it for it in known if wanted in (it.app, it.name)]
    found = exact or [it for it in known if it.name.startswith(wanted) or it.app.startswith(wanted.lower())]
    alive = [it for it in found if it.state in ALIVE] or found
    if not alive:
        names = ", ".join(sorted({it.name for it in known})[:12]) or "none"
        raise Complaint(f"There is no app {wanted!r}.", f"Those that there are: {names}. See `peer apps`.")
    if len({it.app for it in alive}) > 1:
        several = ", ".join(f"{it.name} ({it.app[:8]})" for it in alive[:6])
        raise Complaint(f"{wanted!r} may be any of {several}.", "Write more of the name or of the id.")
    return alive[0]
