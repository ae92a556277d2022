"""What the instances of a share have taken and given, in rows and bytes; and what is under way between shares.

    EdgeState   one edge that leaves the process, for metrics
    UnderWay    enough to tell that an app has come to rest after its sources were closed

Rest: a share can only see itself, and rows between two peers are in neither. So each counts what it sent and what it
took, over all its edges. If in two rounds over all shares nothing waits anywhere, all that was sent was taken, and no
count has changed between the rounds, then nothing is under way (Mattern's four counters).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dataflow.hosting.assignment import InstanceId
from dataflow.hosting.channel import Item
from dataflow.hosting.edge_frames import Parcel


class Tally:
    """Counts by instance. Bytes are those of Arrow's buffers within a process, and of bodies between peers."""

    def __init__(self) -> None:
        self.rows_in: Counter[InstanceId] = Counter()
        self.bytes_in: Counter[InstanceId] = Counter()
        self.rows_out: Counter[InstanceId] = Counter()
        self.bytes_out: Counter[InstanceId] = Counter()

    def took(self, instance: InstanceId, items: Sequence[Item]) -> None:
        self.rows_in[instance] += sum(item.rows for item in items)
        self.bytes_in[instance] += sum(item.size_bytes for item in items)

    def gave(self, instance: InstanceId, what: Iterable[Item | Parcel]) -> None:
        for each in what:
            self.rows_out[instance] += each.rows
            self.bytes_out[instance] += each.size_bytes if isinstance(each, Item) else each.body_bytes


@dataclass(frozen=True, slots=True)
class EdgeState:
    edge: int
    writer: str
    reader: str
    under_way_messages: int
    under_way_bytes: int
    credit_messages: int
    credit_bytes: int


@dataclass(frozen=True, slots=True)
class UnderWay:
    """
    >>> one, other = UnderWay(0, sent=7, taken=2), UnderWay(0, sent=2, taken=7)
    >>> total = one + other
    >>> total.is_at_rest, (total + UnderWay(1, 0, 0)).is_at_rest, (total + UnderWay(0, 1, 0)).is_at_rest
    (True, False, False)
    """

    waiting: int
    """Messages in queues, being worked on, or handed to a sink."""
    sent: int
    taken: int

    def __add__(self, other: UnderWay) -> UnderWay:
        return UnderWay(self.waiting + other.waiting, self.sent + other.sent, self.taken + other.taken)

    @property
    def is_at_rest(self) -> bool:
        """Might nothing be under way? Certain if the next round says the same."""
        return not self.waiting and self.sent == self.taken
