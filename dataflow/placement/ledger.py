"""What this peer has promised to which app: room is reserved before it is used, and given back if it is not.

A launch is all or nothing: the scheduler asks every peer of an assignment to reserve, then tells all of them to start;
if one refuses, it releases the others. Two launches that race for the last slot meet here, on the peer that has it:
who asks first is granted, who asks second is told what is lacking.

    reserve  -> Granted | Refused     held until `expires_at`
    start    -> Granted | Refused     what was reserved becomes what runs; the app's older generation ends with that
    release                           gives back what was reserved, and with `stop` also what runs
    expire                            gives back what was reserved and never started: its scheduler may have died

Asking again for the same (app, generation) renews the hold: a scheduler that heard no answer simply repeats. A
generation that is older than what the app has here is refused: whoever asks for it has been overtaken.

Promise: what runs and what is reserved never exceeds what the peer has. Pure: `now` comes in.
Rejected: a lock with a queue (a launch would wait for another that may never start); two-phase commit with a log (after
a restart nothing runs here anyway, so nothing is promised either).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOLD_S: Final = 10.0
"""How long a reservation is kept: far longer than a launch takes, far shorter than a user waits to try again."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an app's share on one peer takes."""

    slots: int
    memory_mib: int = 0

    def __post_init__(self) -> None:
        if self.slots < 0 or self.memory_mib < 0:
            raise ValueError("nobody can need less than nothing")


@dataclass(frozen=True, slots=True)
class Granted:
    app: str
    generation: int
    expires_at: float | None
    """When the hold ends; None once it runs."""


@dataclass(frozen=True, slots=True)
class Refused:
    """`lack` completes the sentence "peer X ..."."""

    app: str
    generation: int
    lack: str


NOTHING: Final = Need(0)


@dataclass(slots=True)
class _Share:
    """One app here: what runs, and what is reserved for a later generation of it."""

    running: Need = NOTHING
    running_generation: int = -1
    held: Need = NOTHING
    held_generation: int = -1
    expires_at: float = 0.0

    @property
    def slots(self) -> int:
        # A new generation takes the place of the old one, so the two never need room at the same time.
        return max(self.running.slots, self.held.slots)

    @property
    def memory_mib(self) -> int:
        return max(self.running.memory_mib, self.held.memory_mib)

    def drop_hold(self) -> None:
        self.held, self.held_generation = NOTHING, -1


class Ledger:
    """One peer's promises.

    >>> ledger = Ledger(slots=1)
    >>> type(ledger.reserve("a", 1, Need(1), now=0.0)).__name__
    'Granted'
    >>> ledger.reserve("b", 1, Need(1), now=0.1).lack
    'lacks 1 slot (1 of 1 are taken)'
    """

    def __init__(self, *, slots: int, memory_mib: int | None = None, hold_s: float = HOLD_S) -> None:
        self.slots = slots
        self.memory_mib = memory_mib
        self._hold_s = hold_s
        self._shares: dict[str, _Share] = {}

    @property
    def slots_used(self) -> int:
        return sum(share.slots for share in self._shares.values())

    @property
    def memory_used_mib(self) -> int:
        return sum(share.memory_mib for share in self._shares.values())

    def running(self) -> tuple[str, ...]:
        """The apps that run here."""
        return tuple(sorted(app for app, it in self._shares.items() if it.running_generation >= 0))

    def reserve(self, app: str, generation: int, need: Need, now: float) -> Granted | Refused:
        """Hold room for an app's share, or say what is lacking and change nothing."""
        self.expire(now)
        share = self._shares.get(app) or _Share()
        newest = max(share.running_generation, share.held_generation)
        if generation < newest:
            return Refused(app, generation, f"has generation {newest} of the app already")
        if generation == share.running_generation:
            # Repeated by a scheduler that did not hear that we started: nothing to hold.
            return Granted(app, generation, None)
        lack = self._lack(share, need)
        if lack is not None:
            return Refused(app, generation, lack)
        self._shares[app] = share
        share.held, share.held_generation = need, generation
        share.expires_at = now + self._hold_s
        return Granted(app, generation, share.expires_at)

    def start(self, app: str, generation: int, now: float) -> Granted | Refused:
        """What was reserved runs from now on."""
        self.expire(now)
        share = self._shares.get(app)
        if share is not None and share.running_generation == generation:
            return Granted(app, generation, None)
        if share is None or share.held_generation != generation:
            return Refused(app, generation, "holds no room for it any more: the reservation ended before the start")
        share.running, share.running_generation = share.held, generation
        share.drop_hold()
        return Granted(app, generation, None)

    def release(self, app: str, generation: int, *, stop: bool = False) -> None:
        """Give back what is reserved for this generation; with `stop`, also what runs of it or of an older one."""
        share = self._shares.get(app)
        if share is None:
            return
        if share.held_generation == generation:
            share.drop_hold()
        if stop and share.running_generation <= generation:
            share.running, share.running_generation = NOTHING, -1
        self._forget_if_empty(app)

    def expire(self, now: float) -> tuple[str, ...]:
        """Give back holds that were never started. Returns whose."""
        due = sorted(app for app, it in self._shares.items() if it.held_generation >= 0 and now >= it.expires_at)
        for app in due:
            self._shares[app].drop_hold()
            self._forget_if_empty(app)
        return tuple(due)

    def _forget_if_empty(self, app: str) -> None:
        share = self._shares[app]
        if share.running_generation < 0 and share.held_generation < 0:
            del self._shares[app]

    def _lack(self, share: _Share, need: Need) -> str | None:
        others = self.slots_used - share.slots
        # `running` counts until the new generation starts: it may never do so.
        wanted = max(need.slots, share.running.slots)
        if others + wanted > self.slots:
            missing = others + wanted - self.slots
            return f"lacks {missing} slot{'s' if missing > 1 else ''} ({others} of {self.slots} are taken)"
        if self.memory_mib is not None:
            others = self.memory_used_mib - share.memory_mib
            wanted = max(need.memory_mib, share.running.memory_mib)
            if others + wanted > self.memory_mib:
                left = self.memory_mib - others
                return f"lacks memory ({wanted} MiB are needed, {left} of {self.memory_mib} MiB are left)"
        return None
