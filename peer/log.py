"""One line per event: for people, or for programs with `--log json`.

    12:00:01 peer ab12cd34 suspected by 2 witnesses, at 127.0.0.1:4001 in attic
    {"at": 1790000000.123, "me": "77aa...", "event": "suspected", "peer": "ab12...", ...}

A line is made of an `Entry`, and an entry of an effect that a node observed, by a table: what a new kind of
effect looks like is one line there. Refusals can come as fast as somebody likes to send rubbish, so those of
one reason are written at most every few seconds, with the number kept back; the counters have them all.

Pure but for `Log.write`. Rejected: the `logging` module; levels and handlers for what is one stream of facts.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any

from overlay.connections_trio import LinkRefused
from overlay.contact import Contact
from overlay.effects import Confirmed, Departed, Joined, LeavesChanged, Refused, Suspected, Trusted
from overlay.gossip import DenylistChanged
from overlay.ids import PeerId, short, to_hex

FLOOD_PAUSE_S = 10.0
FLOODS_MAX = 256
"""Reasons and addresses remembered. Who comes from more addresses than that gets more lines."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event: a word, a sentence, and facts for programs."""

    event: str
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)
    flood: str = ""
    """What others can cause at will: entries of one flood are written only now and then."""


def _place(contact: Contact) -> str:
    return f"at {contact.address}" + (f" in {contact.zone}" if contact.zone else "")


def _about(event: str, contact: Contact, words: str, **more: Any) -> Entry:
    known = {"peer": to_hex(contact.peer), "address": contact.address, "zone": contact.zone}
    return Entry(event, f"peer {short(contact.peer)} {words}, {_place(contact)}", known | more)


def _many(count: int, word: str) -> str:
    """
    >>> _many(1, "witness"), _many(3, "peer")
    ('1 witness', '3 peers')
    """
    return f"{count} {word}" + ("" if count == 1 else "es" if word.endswith("s") else "s")


def _leaves_changed(it: LeavesChanged) -> Entry:
    gained = " ".join("+" + short(contact.peer) for contact in it.gained)
    lost = " ".join("-" + short(peer) for peer in it.lost)
    facts = {"gained": [to_hex(each.peer) for each in it.gained], "lost": [to_hex(peer) for peer in it.lost]}
    return Entry("leaves_changed", f"leaf set {' '.join(filter(None, (gained, lost)))}", facts)


def _link_refused(it: LinkRefused) -> Entry:
    facts = {"address": it.address, "reason": it.reason, "detail": it.detail}
    why = f"{it.reason}, {it.detail}" if it.detail else it.reason
    if it.is_dialled:
        return Entry("unreachable", f"cannot reach {it.address}: {why}", facts, flood=f"{it.address} {it.reason}")
    return Entry("refused", f"refused a connection from {it.address}: {why}", facts, flood=it.reason)


ENTRIES: dict[type, Callable[[Any], Entry]] = {
    Joined: lambda it: Entry(
        "joined", f"joined the ring, {_many(it.peers_known, 'peer')} known", {"peers_known": it.peers_known}
    ),
    Suspected: lambda it: _about(
        "suspected", it.contact, f"suspected by {_many(it.witnesses, 'witness')}", witnesses=it.witnesses
    ),
    Trusted: lambda it: _about("trusted", it.contact, "is alive after all"),
    Confirmed: lambda it: _about("confirmed", it.contact, "is dead", witnesses=[to_hex(peer) for peer in it.witnesses]),
    Departed: lambda it: _about("departed", it.contact, "left"),
    LeavesChanged: _leaves_changed,
    Refused: lambda it: Entry(
        "refused",
        f"refused {it.reason} from {short(it.sender)}",
        {"reason": it.reason, "sender": to_hex(it.sender)},
        flood=it.reason,
    ),
    LinkRefused: _link_refused,
    DenylistChanged: lambda it: Entry(
        "denylist",
        f"denylist {it.denylist.version} shuts out {_many(len(it.denylist.serials), 'certificate')}",
        {"version": it.denylist.version, "serials": sorted(it.denylist.serials)},
    ),
}


def entry_of(effect: Any) -> Entry | None:
    """What to write about an effect; nothing about those that happen with every message."""
    make = ENTRIES.get(type(effect))
    return make(effect) if make else None


class Log:
    """Writes entries to a stream, each as one line, at once."""

    def __init__(self, stream: IO[str], *, form: str, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._form = form
        self._clock = clock
        self._floods: dict[str, tuple[float, int]] = {}

    def on_effect(self, me: PeerId, effect: Any) -> None:
        """An observer for `Runtime`."""
        entry = entry_of(effect)
        if entry is not None and entry.flood:
            entry = self._now_and_then(entry, self._clock())
        if entry is not None:
            self.write(entry, me=me)

    def _now_and_then(self, entry: Entry, now: float) -> Entry | None:
        last, kept_back = self._floods.get(entry.flood, (now - FLOOD_PAUSE_S, 0))
        if now - last < FLOOD_PAUSE_S:
            self._floods[entry.flood] = (last, kept_back + 1)
            return None
        self._floods.pop(entry.flood, None)  # so that the first of the dict is the oldest
        self._floods[entry.flood] = (now, 0)
        if len(self._floods) > FLOODS_MAX:
            del self._floods[next(iter(self._floods))]
        more = f" (and {kept_back} more)" if kept_back else ""
        return Entry(entry.event, entry.sentence + more, entry.facts | {"kept_back": kept_back})

    def write(self, entry: Entry, *, me: PeerId | None = None) -> None:
        now = self._clock()
        if self._form == "json":
            who = {} if me is None else {"me": to_hex(me)}
            line = json.dumps({"at": round(now, 3), **who, "event": entry.event, **entry.facts})
        else:
            line = f"{datetime.fromtimestamp(now):%H:%M:%S} {entry.sentence}"
        self._stream.write(line + "\n")
        self._stream.flush()
