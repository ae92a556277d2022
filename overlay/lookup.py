"""Find the peers nearest to a key by asking, ever nearer, those we hear of.

The answer is exact when every peer among the `width` nearest that we have heard of has itself been asked:
each of them names whom it knows nearer, so nobody nearer can be missed unless all of them miss him.

Pure: `next` says whom to ask, `on_found` and `on_silent` say what came of it.
Rejected: kademlia's `find_neighbors` and `crawling`, which stop at the first k *seen*, not the k *nearest*.
"""

from collections.abc import Iterable
from enum import Enum, auto

from overlay.contact import Contact
from overlay.ids import Key, PeerId

PARALLEL_ASKS = 3
"""Questions under way at once: more finds the answer sooner and asks more peers in vain."""


class _Stage(Enum):
    HEARD_OF = auto()
    ASKED = auto()
    REPLIED = auto()
    SILENT = auto()


class Lookup:
    """One search for the `width` peers nearest to `key`, by peer `me`, who is never among the answers.

    >>> far, near = Contact(PeerId(Key(64)), "h", 1), Contact(PeerId(Key(1)), "h", 2)
    >>> search = Lookup(Key(0), width=2, me=PeerId(Key(255)), seeds=[far])
    >>> search.next()
    [<00000000 at h:1>]
    >>> search.on_found(far.peer, [near]); [it.port for it in search.next()]
    [2]
    >>> search.on_silent(near.peer); search.is_done, [it.port for it in search.nearest()]
    (True, [1])
    """

    def __init__(self, key: Key, *, width: int, me: PeerId, seeds: Iterable[Contact], parallel: int = PARALLEL_ASKS):
        self.key = key
        self.width = width
        self._me = me
        self._parallel = parallel
        self._contacts: dict[PeerId, Contact] = {}
        self._stages: dict[PeerId, _Stage] = {}
        self._hear_of(seeds)

    def _hear_of(self, contacts: Iterable[Contact]) -> None:
        for contact in contacts:
            if contact.peer != self._me and contact.peer not in self._contacts:
                self._contacts[contact.peer] = contact
                self._stages[contact.peer] = _Stage.HEARD_OF

    def _candidates(self) -> list[PeerId]:
        """The `width` nearest that have not proved silent, nearest first."""
        key, stages = self.key, self._stages
        live = [peer for peer in self._contacts if stages[peer] is not _Stage.SILENT]
        live.sort(key=lambda peer: peer ^ key)
        return live[: self.width]

    def next(self) -> list[Contact]:
        """Whom to ask now. They count as asked until `on_found` or `on_silent` tells of them."""
        room = self._parallel - sum(1 for stage in self._stages.values() if stage is _Stage.ASKED)
        asks = [peer for peer in self._candidates() if self._stages[peer] is _Stage.HEARD_OF][:room]
        for peer in asks:
            self._stages[peer] = _Stage.ASKED
        return [self._contacts[peer] for peer in asks]

    def on_found(self, sender: PeerId, contacts: Iterable[Contact]) -> None:
        if sender in self._stages:
            self._stages[sender] = _Stage.REPLIED
            self._hear_of(contacts)

    def on_silent(self, peer: PeerId) -> None:
        if self._stages.get(peer) is _Stage.ASKED:
            self._stages[peer] = _Stage.SILENT

    @property
    def is_done(self) -> bool:
        return all(self._stages[peer] is _Stage.REPLIED for peer in self._candidates())

    def nearest(self) -> list[Contact]:
        """The answer: those who replied, nearest to the key first."""
        return [self._contacts[peer] for peer in self._candidates() if self._stages[peer] is _Stage.REPLIED]
