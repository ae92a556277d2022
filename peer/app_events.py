"""What has happened to the apps of this peer: the newest lines of each, for `peer logs`.

An event is a word and a sentence. Its position counts from the first of its app, so whoever reads on asks from where
it stopped, and sees by the positions how many it missed. What repeats is counted, not repeated: a function that
prints the same line a million times, or a peer that sends the same wrong frame, costs one line.

Bounded in lines for each app, in characters for each line, and in apps. Any thread may add.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

EVENTS_MAX: Final = 500
"""Of one app: what a person scrolls through."""
APPS_MAX: Final = 128
SENTENCE_CHARS_MAX: Final = 300
PAGE_CHARS_MAX: Final = 8_000
"""What one answer holds: a character is up to six bytes in JSON, a report 48 KiB."""


@dataclass(slots=True)
class Event:
    at_ms: int
    word: str
    sentence: str
    times: int = 1

    def row(self) -> dict[str, Any]:
        more = f" ({self.times} times)" if self.times > 1 else ""
        return {"at_ms": self.at_ms, "event": self.word, "sentence": self.sentence + more}


@dataclass(slots=True)
class _Lines:
    first: int = 0
    events: deque[Event] = field(default_factory=deque)


class Events:
    """
    >>> events = Events(clock=lambda: 1.5)
    >>> for line in ("warm", "warm", "cold"):
    ...     events.add("ab", "printed", line)
    >>> page = events.page("ab", 0)
    >>> [it["sentence"] for it in page["events"]], page["next"], events.page("ab", 1)["events"][0]["sentence"]
    (['warm (2 times)', 'cold'], 2, 'cold')
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._apps: OrderedDict[str, _Lines] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, app: str, word: str, sentence: str) -> None:
        said = "".join(it if it.isprintable() else " " for it in sentence[:SENTENCE_CHARS_MAX])
        at_ms = int(self._clock() * 1000)
        with self._lock:
            lines = self._apps.setdefault(app, _Lines())
            self._apps.move_to_end(app)
            last = lines.events[-1] if lines.events else None
            if last is not None and (last.word, last.sentence) == (word, said):
                last.times += 1
                return
            lines.events.append(Event(at_ms, word, said))
            if len(lines.events) > EVENTS_MAX:
                lines.events.popleft()
                lines.first += 1
            if len(self._apps) > APPS_MAX:
                self._apps.popitem(last=False)

    def page(self, app: str, position: int) -> dict[str, Any]:
        """Events from `position` on, as many as one answer holds; `next` is where to read on."""
        with self._lock:
            lines = self._apps.get(app) or _Lines()
            first = min(max(position, lines.first), lines.first + len(lines.events))
            rows: list[dict[str, Any]] = []
            room = PAGE_CHARS_MAX
            for event in list(lines.events)[first - lines.first :]:
                room -= len(event.sentence) + 64
                if room < 0:
                    break
                rows.append(event.row())
            next_ = first + len(rows)
            return {
                "first": first,
                "next": next_,
                "is_all": next_ == lines.first + len(lines.events),
                "events": rows,
            }
