"""A ring that stands still: production views, filled from above instead of by joins.

Experiments about placement need routes through 10,000 peers, and nothing that happens between them. Growing such a
ring takes a minute and a half (`sim.ring` does, and checks what comes out: every leaf set exact, cells full). Here each
peer's `View`, `LeafSet` and `Table` are the real ones, built when first asked for, from the list of all peers: exact
leaves, and in each cell contacts drawn from those who belong there. Next hops are chosen by the real `View.next_hop`;
nobody has measured anybody, so contacts of one cell differ by distance only.
"""

from bisect import bisect_left

from overlay.contact import Contact
from overlay.ids import DIGIT_BITS, DIGIT_VALUES, DIGITS, ID_BITS, Key, PeerId
from overlay.settings import Settings
from overlay.view import View
from sim.census import Census
from sim.seeds import rng_of


class StillRing:
    """`peers` of them, dealt to `zones` by turns."""

    def __init__(self, peers: int, zones: int, seed: int, settings: Settings | None = None) -> None:
        rng = rng_of(seed, "ids")
        ids = sorted({PeerId(Key(rng.getrandbits(ID_BITS))) for _ in range(peers)})
        rng.shuffle(ids)
        self.settings = settings or Settings()
        self.zone_of = {peer: number % zones for number, peer in enumerate(ids)}
        self.peers = sorted(ids)
        self.census = Census(self.peers)
        self._contacts = {
            peer: Contact(peer, "10.0.0.1", 4000, zone=f"zone-{self.zone_of[peer]}", boot_ms=1) for peer in self.peers
        }
        self._views: dict[PeerId, View] = {}
        self._leaves: dict[PeerId, tuple[PeerId, ...]] = {}
        self._seed = seed

    def leaves(self, peer: PeerId) -> tuple[PeerId, ...]:
        if peer not in self._leaves:
            self._leaves[peer] = tuple(self.census.leaves(peer, self.settings.leaves))
        return self._leaves[peer]

    def route(self, origin: PeerId, key: Key) -> tuple[PeerId, ...]:
        """The way of a message: origin first, owner last."""
        hops = [origin]
        while (following := self._view(hops[-1]).next_hop(key)) is not None:
            hops.append(following.peer)
        return tuple(hops)

    def _view(self, peer: PeerId) -> View:
        view = self._views.get(peer)
        if view is None:
            view = self._views[peer] = View(self._contacts[peer], self.settings)
            for leaf in self.leaves(peer):
                view.leaves.offer(self._contacts[leaf])
            view.table.hear_of([self._contacts[it] for it in self._table_of(peer)], 0.0)
        return view

    def _table_of(self, me: PeerId) -> list[PeerId]:
        """For each cell as many contacts as it holds, drawn from all who have its prefix."""
        rng, chosen, ids = rng_of(self._seed, "table", me), list[PeerId](), self.peers
        for row in range(DIGITS):
            low_bits = ID_BITS - DIGIT_BITS * (row + 1)
            prefix = me >> (low_bits + DIGIT_BITS) << DIGIT_BITS
            bounds = [bisect_left(ids, (prefix + digit) << low_bits) for digit in range(DIGIT_VALUES + 1)]
            if bounds[-1] - bounds[0] <= 1:
                break
            mine = (me >> low_bits) & (DIGIT_VALUES - 1)
            for digit in range(DIGIT_VALUES):
                low, high = bounds[digit], bounds[digit + 1]
                if digit != mine and high > low:
                    chosen += [ids[it] for it in rng.sample(range(low, high), min(self.settings.cell_size, high - low))]
        return chosen
