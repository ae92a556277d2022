"""Which faults a seed draws, and when they strike.

Each seed takes some kinds and leaves others out (a swarm): a world in which everything happens at once hides what only
happens when, say, nothing but pauses do. Faults come during the safety phase; then all of them stop, who is down
comes back (one that nothing depends on may stay away), and the app has to end.

Every kind is one named option, with how often it strikes a minute, or as a share of what is sent or written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from overlay.ids import PeerId
from sim.apps.network import NetworkFaults
from sim.apps.peer import AppPeer
from sim.apps.world import AppWorld
from sim.disk import DiskFaults

KINDS: Final = (
    "crash",
    "power cut",
    "pause",
    "one-way partition",
    "two-way partition",
    "zone loss",
    "churn",
    "false alarm",
)
SHARES: Final = ("loss", "duplication", "reorder", "corruption", "disk full", "torn write", "slow disk")


@dataclass(frozen=True, slots=True)
class Swarm:
    """What one seed draws."""

    per_min: dict[str, float]
    network: NetworkFaults
    disk: DiskFaults
    away: bool
    """Does one peer, on which nothing depends, stay away for good?"""

    @property
    def kinds(self) -> list[str]:
        shares = {
            "loss": self.network.loss,
            "duplication": self.network.duplication,
            "reorder": self.network.reorder,
            "corruption": self.network.corruption,
            "disk full": self.disk.full,
            "torn write": self.disk.torn,
            "slow disk": self.disk.slow_s,
        }
        return [*(kind for kind in KINDS if kind in self.per_min), *(kind for kind in SHARES if shares[kind])]


def draw(rng: Random) -> Swarm:
    per_min = {kind: rng.choice((3.0, 8.0, 20.0)) for kind in KINDS if rng.random() < 0.35}
    if "zone loss" in per_min:
        per_min["zone loss"] = 3.0

    def share(*of: float) -> float:
        return rng.choice(of) if rng.random() < 0.35 else 0.0

    return Swarm(
        per_min,
        NetworkFaults(
            loss=share(0.002, 0.02, 0.1),
            duplication=share(0.01, 0.1),
            reorder=share(0.01, 0.1, 0.3),
            corruption=share(0.002, 0.02),
        ),
        DiskFaults(full=share(0.005, 0.05, 0.2), torn=share(0.5, 1.0), slow_s=share(0.05, 0.5)),
        away=rng.random() < 0.3,
    )


class Striker:
    """Lets a swarm strike a world until it is told to stop."""

    def __init__(self, world: AppWorld, swarm: Swarm, rng: Random) -> None:
        self._world = world
        self._swarm = swarm
        self._rng = rng
        self._is_on = False
        self._strikes: dict[str, Callable[[float], None]] = {
            "crash": self._crash,
            "power cut": self._cut_power,
            "pause": self._pause,
            "one-way partition": self._one_way,
            "two-way partition": self._two_way,
            "zone loss": self._lose_zone,
            "churn": self._churn,
            "false alarm": self._false_alarm,
        }

    def start(self) -> None:
        self._is_on = True
        self._world.network.faults = self._swarm.network
        for it in self._world.all:
            it.disk.faults = self._swarm.disk
        for kind in self._swarm.per_min:
            self._next(kind, self._world.now)

    def stop(self) -> None:
        """Faults end; who is down comes back, but for one that may stay away."""
        world, now = self._world, self._world.now
        self._is_on = False
        world.network.faults = NetworkFaults()
        world.network.blocked.clear()
        stays = self._stays_away() if self._swarm.away else None
        for it in world.all:
            it.disk.faults = DiskFaults()
            it.disk.cut_power_at = 0
            it.paused_until = min(it.paused_until, now)
            if it is stays:
                it.crash("stays away")
                world.struck["away"] += 1
            elif not it.is_up:
                self._up_later(it, self._rng.uniform(0.0, 3.0), now)

    def _next(self, kind: str, now: float) -> None:
        wait_s = self._rng.expovariate(self._swarm.per_min[kind] / 60.0)
        self._world.heap.put(now + wait_s, self._strike, kind)

    def _strike(self, kind: str, now: float) -> None:
        if self._is_on:
            self._strikes[kind](now)
            self._next(kind, now)

    # -- the kinds --

    def _crash(self, now: float) -> None:
        self._down(self._any(), "crash", self._rng.uniform(0.3, 12.0), now)

    def _churn(self, now: float) -> None:
        """Down and up again at once: a process that is restarted."""
        self._down(self._any(), "churn", self._rng.uniform(0.02, 0.5), now)

    def _lose_zone(self, now: float) -> None:
        zone = self._rng.choice(sorted({it.zone for it in self._world.all}))
        self._world.struck["zone loss"] += 1
        back_s = self._rng.uniform(1.0, 10.0)
        for it in self._world.all:
            if it.zone == zone:
                self._down(it, "", back_s + self._rng.uniform(0.0, 2.0), now)

    def _cut_power(self, now: float) -> None:
        it = self._any()
        if it.is_up:
            it.disk.cut_power_at = it.disk.points + self._rng.randint(1, 12)
            self._up_later(it, self._rng.uniform(1.0, 12.0), now)

    def _pause(self, now: float) -> None:
        it = self._any()
        if it.is_up:
            self._world.struck["pause"] += 1
            it.paused_until = now + self._rng.choice((0.3, 2.0, 6.0)) * self._rng.uniform(0.5, 2.0)
            self._world.say(it, "pauses", f"until {it.paused_until:.3f}")

    def _one_way(self, now: float) -> None:
        one, other = self._rng.sample(self._world.all, 2)
        self._block([(one.peer, other.peer)], "one-way partition", now)

    def _two_way(self, now: float) -> None:
        apart = set(self._rng.sample(self._world.all, self._rng.randint(1, 3)))
        ways = [(a.peer, b.peer) for a in self._world.all for b in self._world.all if (a in apart) != (b in apart)]
        self._block(ways, "two-way partition", now)

    def _false_alarm(self, now: float) -> None:
        self._world.struck["false alarm"] += 1
        self._world.tell_death(self._any().contact, now)

    # -- what they share --

    def _any(self) -> AppPeer:
        return self._rng.choice(self._world.all)

    def _down(self, it: AppPeer, kind: str, back_s: float, now: float) -> None:
        if it.is_up:
            if kind:
                self._world.struck[kind] += 1
            it.crash(kind or "its zone is lost")
            self._up_later(it, back_s, now)

    def _up_later(self, it: AppPeer, back_s: float, now: float) -> None:
        self._world.heap.put(now + back_s, lambda _, at: self._boot(it, at), None)

    def _boot(self, it: AppPeer, now: float) -> None:
        if not it.is_up and it is not self._away:
            it.start(now)

    _away: AppPeer | None = None

    def _stays_away(self) -> AppPeer | None:
        world = self._world
        needed = set(world.home_of.values())
        able = [it for it in world.all if it.peer not in needed]
        self._away = self._rng.choice(able) if able else None
        return self._away

    def _block(self, ways: list[tuple[PeerId, PeerId]], kind: str, now: float) -> None:
        self._world.struck[kind] += 1
        network = self._world.network
        new = [way for way in ways if way not in network.blocked]
        network.blocked.update(new)
        for one, other in new:
            network.broke(one, other, now)
        self._world.heap.put(
            now + self._rng.choice((0.5, 3.0, 9.0)) * self._rng.uniform(0.5, 2.0),
            lambda _, at: network.blocked.difference_update(new),
            None,
        )
