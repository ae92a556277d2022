"""Every number of the overlay that an operator may want to turn, with its meaning and its price."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    leaves: int = 24
    """Peers in the leaf set. More survive at once (all 24 must die between two repairs to cut a peer off) and
    more is known exactly around us; each costs one probe every `leaves` periods and one message at a join."""

    cell_size: int = 3
    """Contacts in a cell of the routing table. One is enough to route; the others give proximity something to
    choose from and a spare when one dies. Memory and announcements grow with it."""

    search_width: int = 4
    """Nearest peers that a claim asks for somebody nearer yet, where the leaf set does not cover the key. One was too
    few: a newcomer is announced to one peer of a subtree, and that need not be the nearest to the key."""

    choice: str = "proximity"
    """How to choose among contacts that are one digit nearer: `proximity` (lowest round-trip time, scaled by
    load) or `hops` (nearest to the key; fewer hops, longer ones)."""

    hop_timeout_s: float = 0.5
    """How long the next hop has to acknowledge, at least. A far peer gets four round-trip times if that is more."""

    hop_attempts: int = 6
    """Sends of one routed message at one hop before the hop gives up: at 20 % loss, two in a million fail."""

    route_timeout_s: float = 4.0
    """How long an origin waits for its answer before it sends again, by another first hop if it can."""

    route_attempts: int = 4
    """Sends of one routed message by its origin before the caller hears that it failed."""

    ask_timeout_s: float = 1.0
    """How long a question (FindNode, Announce) may stay unanswered; a repeated FindNode gets as much more each time."""

    ask_attempts: int = 3
    """Unanswered questions before a leaf-set candidate is passed over: at 20 % loss, 5 in 100 are, and the
    next repair finds those."""

    join_timeout_s: float = 5.0
    """How long a JOIN may take before it is tried again through the next seed."""

    repair_min_s: float = 2.0
    """Pause between two checks of the leaf set while it changes."""

    repair_max_s: float = 12.0
    """Pause between two checks once nothing changes: it doubles from `repair_min_s` with every quiet check. A quiet
    minute thus holds at least four, enough to find what a lost announcement left out; each costs four messages."""

    measure_s: float = 2.0
    """Pause between two measurements of routing-table contacts (round-trip time, load, still there?). It is eight
    times longer once every contact has been measured. A table of 130 contacts is thus known in four minutes."""

    grave_s: float = 60.0
    """How long hearsay about a dead peer is disbelieved. It must outlive the rumours; its own word always counts."""

    watchers_max: int = 64
    """Most peers remembered as having us in their leaf sets (seen: 9 to 38 at 24 leaves)."""
