"""The faults that strike by chance: links that are cut for a while, peers that stand still for a while.

How often and for how long is said in `Faults`; who is struck is drawn from a stream of its own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.network import Cut
from sim.peer import SimPeer, State
from sim.seeds import rng_of

if TYPE_CHECKING:
    from sim.world import World

Blow = Callable[[], None]


class Mishaps:
    """Strikes a world at random, from `start` until `stop`."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._faults = world.network.faults
        self._rng = rng_of(world.seed, "mishaps")
        self._is_on = False

    def start(self) -> None:
        self._is_on = True
        for per_min, blow in (
            (self._faults.one_way_cuts_per_min, self._cut_one_way),
            (self._faults.two_way_cuts_per_min, self._cut_both_ways),
            (self._faults.pauses_per_min, self._pause),
        ):
            if per_min:
                self._wait(per_min, blow)

    def stop(self) -> None:
        """No new mishap. Those under way last as long as they were meant to."""
        self._is_on = False

    def _wait(self, per_min: float, blow: Blow) -> None:
        at = self._world.now + self._rng.expovariate(per_min / 60)
        self._world.heap.put(at, self._strike, (per_min, blow))

    def _strike(self, event: tuple[float, Blow], now: float) -> None:
        if self._is_on:
            per_min, blow = event
            if len(self._world.live) > 1:
                blow()
            self._wait(per_min, blow)

    def _cut_one_way(self) -> None:
        self._cut(one_way=True)

    def _cut_both_ways(self) -> None:
        self._cut(one_way=False)

    def _cut(self, *, one_way: bool) -> None:
        one, other = self._rng.sample(self._world.live, 2)
        cuts = self._world.partition([one], [other], one_way=one_way)
        self._world.heap.put(self._world.now + self._faults.cut_s, self._heal, cuts)

    def _heal(self, cuts: list[Cut], now: float) -> None:
        self._world.heal(cuts)

    def _pause(self) -> None:
        peer = self._rng.choice(self._world.live)
        if peer.state is State.UP:
            self._world.pause(peer)
            self._world.heap.put(self._world.now + self._faults.pause_s, self._resume, peer)

    def _resume(self, peer: SimPeer, now: float) -> None:
        if peer.state is State.PAUSED:
            self._world.resume(peer)
