"""One line per event: for people, or for programs with `--log json`.

    12:00:01 peer ab12cd34 suspected by 2 witnesses, at 127.0.0.1:4001 in attic
    {"at": 1790000000.123, "me": "77aa...", "event": "suspected", "peer": "ab12...", ...}

A line is made of an `Entry`, and an entry of an effect that a node observed, by a table: what a new kind of
effect looks like is one line there. Refusals can come as fast as somebody likes to send rubbish, so those of
one reason are written at most every few seconds, with the number kept back; the counters have them all. The
first is written at once. Links that come and go are bounded so for each device.

Pure but for `Log.write`. Rejected: the `logging` module; levels and handlers for what is one stream of facts.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any

from overlay.contact import Contact
from overlay.effects import Confirmed, Departed, Joined, LeavesChanged, Refused, Suspected, Trusted
from overlay.gossip import DenylistChanged
from overlay.ids import PeerId, short, to_hex
from overlay.links import LinkDown, LinkMember, LinkRefused, LinkUp

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


def _about_device(event: str, contacts: tuple[Contact, ...], before: str, after: str, **more: Any) -> Entry:
    """About a device, which is named by its first peer. One that flaps is a line now and then."""
    first, *others = contacts
    known = {"peers": [to_hex(each.peer) for each in contacts], "address": first.address, "zone": first.zone}
    name = f"peer {short(first.peer)}" + (f" and {len(others)} more of its device" if others else "")
    return Entry(event, f"{before}{name}{after}, {_place(first)}", known | more, flood=f"{event} {first.peer}")


def _link_up(it: LinkUp) -> Entry:
    before, after = ("connected to ", "") if it.is_dialled else ("", " connected to us")
    return _about_device("link_up", it.contacts, before, after, dialled=it.is_dialled, member=it.is_member)


def _link_down(it: LinkDown) -> Entry:
    after = " in good order" if it.reason == "goodbye" else f": {it.reason}"
    return _about_device("link_down", it.contacts, "disconnected from ", after, reason=it.reason)


def _link_member(it: LinkMember) -> Entry:
    after = " is in the ring now" if it.is_member else " is out of the ring now"
    return _about_device("link_member", it.contacts, "", after, member=it.is_member)


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
    LinkUp: _link_up,
    LinkDown: _link_down,
    LinkMember: _link_member,
    LinkRefused: _link_refused,
    DenylistChanged: lambda it: Entry(
        "denylist",
        f"denylist {it.denylist.version} shuts out {_many(len(it.denylist.serials), 'certificate')}",
        {"version": it.denylist.version, "serials": sorted(it.denylist.serials)},
    ),
}


def _on_one_line(sentence: str) -> str:
    """Others choose their hosts, zones and excuses: none of them shall write a line of ours.

    >>> _on_one_line("in attic\\n12:00:00 joined the ring")
    'in attic?12:00:00 joined the ring'
    """
    return "".join(each if each.isprintable() else "?" for each in sentence)


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
            line = f"{datetime.fromtimestamp(now):%H:%M:%S} {_on_one_line(entry.sentence)}"
        self._stream.write(line + "\n")
        self._stream.flush()
