"""Peers come and go: crashes, departures, restarts and newcomers, each at a rate of its own.

Rates are shares of the population a minute: at `crash_per_min=0.1` every peer has a 10 % chance to crash in
the next minute, whatever its age (a Poisson process). A restart is the next life of a peer that has crashed,
with the same id; a newcomer is a new device.
"""

from collections import deque
from dataclasses import dataclass

from sim.peer import SimPeer
from sim.seeds import rng_of
from sim.world import World

REPLACE_S = 2.0
"""A replacement comes at a random moment within this time."""
RESTARTS_MAX = 64
"""Crashed peers that may come back; older ones are gone for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Events per peer and minute."""

    crash_per_min: float = 0.0
    leave_per_min: float = 0.0
    join_per_min: float = 0.0
    restart_per_min: float = 0.0
    """Restarts as a share of the population; nothing happens while nobody lies crashed."""
    replaces: bool = False
    """Follow every crash and departure by a newcomer within `REPLACE_S`, so that the population stays put."""


class Churn:
    """Lets a world's population turn over, from `start` until `stop`."""

    def __init__(self, world: World, rates: Rates, *, population_min: int = 2) -> None:
        self.crashes = 0
        self.leaves = 0
        self.joins = 0
        self.restarts = 0
        self._world = world
        self._rates = rates
        self._population = len(world.live)
        self._population_min = population_min
        self._rng = rng_of(world.seed, "churn")
        self._fallen: deque[SimPeer] = deque(maxlen=RESTARTS_MAX)
        self._is_on = False
        self._strikes = (
            (rates.crash_per_min, self._crash),
            (rates.leave_per_min, self._leave),
            (rates.join_per_min, self._join),
            (rates.restart_per_min, self._restart),
        )

    def start(self) -> None:
        self._is_on = True
        self._wait()

    def stop(self) -> None:
        self._is_on = False

    def _wait(self) -> None:
        total_per_min = sum(rate for rate, _ in self._strikes) * self._population
        if total_per_min:
            world = self._world
            world.heap.put(world.now + self._rng.expovariate(total_per_min / 60), self._strike, None)

    def _strike(self, event: None, now: float) -> None:
        if not self._is_on:
            return
        at = self._rng.random() * sum(rate for rate, _ in self._strikes)
        for rate, act in self._strikes:
            at -= rate
            if at < 0:
                act()
                break
        self._wait()

    def _victim(self) -> SimPeer | None:
        live = self._world.live
        return live[self._rng.randrange(len(live))] if len(live) > self._population_min else None

    def _crash(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._world.crash(victim)
            self._fallen.append(victim)
            self.crashes += 1
            self._replace()

    def _leave(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._world.leave(victim)
            self.leaves += 1
            self._replace()

    def _replace(self) -> None:
        if self._rates.replaces:
            at = self._world.now + self._rng.uniform(0, REPLACE_S)
            self._world.heap.put(at, lambda event, now: self._join(), None)

    def _join(self) -> None:
        self._world.add(zone=self._rng.randrange(max(self._world.zones, 1)))
        self.joins += 1

    def _restart(self) -> None:
        if self._fallen:
            self._world.restart(self._fallen.popleft(), moved=self._rng.random() < 0.5)
            self.restarts += 1
