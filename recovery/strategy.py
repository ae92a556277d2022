"""How an instance's state is kept: not at all, as copies, or as coded fragments; in what shape, where, and why.

    restart   no state, or an app that ends sooner than it could be restored
    copies    small state: a few whole copies are quicker to store, to pull back and to repair
    erasure   large state: as safe for half the bytes or less

(AgileDART IV-D.) The shape (needed, total) is the cheapest in bytes that reaches the survival which the app asks
for, given the peers that would really hold it; it survives the loss of a zone where there are zones enough, and of
two holders where there are peers enough, whatever the probability says. What cannot be had is not refused: the best
there is, and a sentence that says so.

Pure. Rejected: one shape for all apps (6 of 6 peers in a small ring, 1.5 times 40 bytes in six messages for a
counter).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from overlay.ids import PeerId
from recovery.coding.erasure import fragment_bytes
from recovery.coding.sealing import SEAL_BYTES
from recovery.coding.slices import FRAGMENT_BYTES_MAX
from recovery.holders import Candidate, Choice, NoHolder, choose
from recovery.survival import alive_chance, losses_survived, survival

COPIES_BYTES_MAX: Final = 256 * 1024
"""Up to here a snapshot goes as copies: a fragment of it would cost more in messages than it saves in bytes."""
FRAGMENT_BYTES_MIN: Final = 128 * 1024
NEEDED_MAX: Final = 10
"""More data fragments save few bytes more, but coding slows down in proportion and a repair asks as many peers."""
HOLDERS_MAX: Final = 24
COPIES_MAX: Final = 5
LOSSES_WANTED: Final = 2
SHORT_LIVED_S: Final = 60.0
SURVIVAL_TARGET: Final = 0.99999
WINDOW_S: Final = 600.0
"""How long a lost fragment may stay lost: suspicion, confirmation, and a repair that waits its turn."""


class Strategy(StrEnum):
    RESTART = "restart"
    COPIES = "copies"
    ERASURE = "erasure"


@dataclass(frozen=True, slots=True)
class Plan:
    """`holders[index]` shall hold that fragment of every part. `why` and `notes` are for `explain`."""

    strategy: Strategy
    needed: int
    total: int
    holders: tuple[PeerId, ...]
    losses_survived: int
    zones_survived: int
    probability: float
    is_target_met: bool
    why: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Option:
    needed: int
    total: int
    choice: Choice
    probability: float
    losses: int
    is_met: bool

    @property
    def is_all_we_want(self) -> bool:
        return self.is_met and self.choice.is_zone_safe and self.losses >= LOSSES_WANTED

    def rank(self) -> tuple[bool, bool, bool, float, int]:
        """Cheapest of those that reach the target; if none does, the likeliest to survive."""
        worth = self.total / self.needed if self.is_met else -self.probability
        return (not self.is_met, not self.choice.is_zone_safe, self.losses < LOSSES_WANTED, worth, self.needed)


def plan(
    *,
    me: Candidate,
    candidates: Iterable[Candidate],
    state_bytes: int,
    target: float = SURVIVAL_TARGET,
    window_s: float = WINDOW_S,
    lifetime_s: float | None = None,
    wanted: Strategy | None = None,
) -> Plan:
    """`me` runs the instance: its death is what we prepare for, so it holds nothing unless it is alone."""
    others = sorted((it for it in candidates if it.peer != me.peer), key=lambda it: it.peer)
    strategy, reason = (wanted, "the app asks for it") if wanted else _strategy(state_bytes, lifetime_s)
    if strategy is Strategy.RESTART:
        why = f"{reason}: nothing is stored, a restart reads its input again"
        return Plan(strategy, 0, 0, (), 0, 0, 1.0, True, why)
    options: list[_Option] = []
    if strategy is Strategy.ERASURE:
        options = _erasures(others, state_bytes, target, window_s)
        if not options:
            strategy, reason = Strategy.COPIES, f"{reason}; but coding needs three peers with room, and there are fewer"
    options = options or _copies(others, state_bytes, target, window_s)
    if not options:
        return _alone(me, reason, others)
    return _planned(strategy, reason, min(options, key=_Option.rank), others, target, window_s)


def _strategy(state_bytes: int, lifetime_s: float | None) -> tuple[Strategy, str]:
    if state_bytes == 0:
        return Strategy.RESTART, "it has no state"
    if lifetime_s is not None and lifetime_s < SHORT_LIVED_S:
        return Strategy.RESTART, f"it ends within {lifetime_s:g} s"
    if state_bytes <= COPIES_BYTES_MAX:
        return Strategy.COPIES, f"{_readable(state_bytes)} of state is small"
    return Strategy.ERASURE, f"{_readable(state_bytes)} of state is large"


def _copies(others: Sequence[Candidate], state_bytes: int, target: float, window_s: float) -> list[_Option]:
    return _options(others, state_bytes, target, window_s, needed=1, totals=range(1, COPIES_MAX + 1))


def _erasures(others: Sequence[Candidate], state_bytes: int, target: float, window_s: float) -> list[_Option]:
    most = max(2, min(NEEDED_MAX, state_bytes // FRAGMENT_BYTES_MIN))
    return [
        option
        for needed in range(2, most + 1)
        for option in _options(
            others, state_bytes, target, window_s, needed=needed, totals=range(needed + 1, HOLDERS_MAX + 1)
        )
    ]


def _options(
    others: Sequence[Candidate], state_bytes: int, target: float, window_s: float, *, needed: int, totals: range
) -> list[_Option]:
    options: list[_Option] = []
    chances = {it.peer: alive_chance(window_s=window_s, mtbf_s=it.mtbf_s) for it in others}
    # Each holder takes a fragment of every slice.
    room = fragment_bytes(state_bytes + SEAL_BYTES * (1 + state_bytes // FRAGMENT_BYTES_MAX), needed)
    for total in totals:
        if total > len(others):
            break
        try:
            choice = choose(others, needed=needed, total=total, fragment_bytes=room)
        except NoHolder:
            break
        if choice.is_doubled:
            break
        probability = survival([(chances[it], 1) for it in choice.holders], needed=needed)
        options.append(_Option(needed, total, choice, probability, total - needed, probability >= target))
        if options[-1].is_all_we_want:
            break
    return options


def _planned(
    strategy: Strategy, reason: str, it: _Option, others: Sequence[Candidate], target: float, window_s: float
) -> Plan:
    zones = losses_survived(it.choice.zones, needed=it.needed)
    shape = "1 copy" if it.total == 1 else f"{it.total} copies" if it.needed == 1 else f"any {it.needed} of {it.total}"
    notes = list(it.choice.notes)
    if not it.is_met:
        given = f"{len(others)} peers give {_chance(it.probability)}"
        notes.append(f"{target:.7g} was asked for and {given}: add peers, or ask for less")
    if it.losses < LOSSES_WANTED:
        notes.append(f"only {it.losses} holders may be lost at once, because only {len(others)} other peers are near")
    why = (
        f"{reason}: {shape}, on {len(set(it.choice.zones))} zones; survives any {it.losses} losses at once, "
        f"and {window_s:g} s with probability {_chance(it.probability)}"
    )
    return Plan(
        strategy, it.needed, it.total, it.choice.holders, it.losses, zones, it.probability, it.is_met, why, tuple(notes)
    )


def _alone(me: Candidate, reason: str, others: Sequence[Candidate]) -> Plan:
    lack = f"none of {len(others)} other peers has room" if others else "there is no other peer"
    note = f"{lack}: the state stays on this peer alone and is lost with its disk; add a peer, or raise a quota"
    why = f"{reason}: 1 copy, on this peer's own disk, because {lack}"
    return Plan(Strategy.COPIES, 1, 1, (me.peer,), 0, 0, 0.0, False, why, (note,))


def survival_now(holders: Sequence[Candidate], *, needed: int, window_s: float = WINDOW_S) -> float:
    """The probability for holders as they are now; who holds two fragments is named twice."""
    held = Counter(it.peer for it in holders)
    mtbf_s = {it.peer: it.mtbf_s for it in holders}
    return survival(
        [(alive_chance(window_s=window_s, mtbf_s=mtbf_s[peer]), held[peer]) for peer in sorted(held)], needed=needed
    )


def _chance(probability: float) -> str:
    """Never 1: nothing is certain.

    >>> _chance(0.999), _chance(1 - 1e-12)
    ('0.999', 'over 0.9999999')
    """
    shown = f"{probability:.7g}"
    return "over 0.9999999" if shown == "1" else shown


def _readable(size: int) -> str:
    """
    >>> _readable(300), _readable(5_000_000)
    ('300 bytes', '4.8 MiB')
    """
    if size < 1024:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 1024**2 else f"{size / 1024**2:.1f} MiB"
