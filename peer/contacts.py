"""Whom we knew: kept on disk, so that a restart finds the ring while every bootstrap is down.

The newest come first and the oldest fall out, for who was seen last is most likely still there. The file is
JSON: a person may read it, and even write it. Whatever is wrong with it costs memories, never the start.

Rejected: keeping the routing table (it is stale after an hour, and a join rebuilds it from one contact).
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from overlay.contact import Contact
from overlay.ids import PeerId, from_hex, to_hex
from peer import places

CONTACTS_KEPT_MAX: Final = 64
"""Two and a half leaf sets. A peer is lost only if all of them are gone when it comes back."""
FILE_BYTES_MAX: Final = 1024 * 1024
"""A larger file is not ours: 64 contacts take some 10 KiB."""


class ContactCache:
    """The last contacts, newest first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._contacts: dict[PeerId, Contact] = {contact.peer: contact for contact in reversed(_load(path))}
        self.is_changed = False

    def newest_first(self) -> list[Contact]:
        return list(reversed(self._contacts.values()))

    def seen(self, contacts: Iterable[Contact]) -> None:
        """These are there now."""
        for contact in contacts:
            self._contacts.pop(contact.peer, None)
            self._contacts[contact.peer] = contact
            self.is_changed = True
        while len(self._contacts) > CONTACTS_KEPT_MAX:
            del self._contacts[next(iter(self._contacts))]

    def save(self) -> None:
        """Write the file if anything changed: all of it, or nothing."""
        if not self.is_changed:
            return
        rows = [
            {"peer": to_hex(it.peer), "host": it.host, "port": it.port, "zone": it.zone, "boot_ms": it.boot_ms}
            for it in self.newest_first()
        ]
        content = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
        places.write(self._path, content.encode(), mode=places.PUBLIC_MODE)
        self.is_changed = False


def _load(path: Path) -> list[Contact]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return []
        rows = json.loads(path.read_text())
        return [_contact(row) for row in rows[:CONTACTS_KEPT_MAX]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def _contact(row: Any) -> Contact:
    host, port = str(row["host"]), int(row["port"])
    if not host or not 0 < port < 1 << 16:
        raise ValueError(f"{host}:{port} is no address")
    return Contact(PeerId(from_hex(row["peer"])), host, port, zone=str(row["zone"]), boot_ms=int(row["boot_ms"]))
