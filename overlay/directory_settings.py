"""How many copies, how long they live, how much a peer holds: what can be set about the directory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    copies: int = 8
    """Holders of each record (k). All of them must die between two hand-overs before a record is missed
    until its next renewal. Every put and every get costs about this many messages, and as many replies."""

    ttl_s: float = 600.0
    """How long a record lives if its publisher falls silent. It is renewed every ttl_s / 3, so two renewals
    in a row may fail. Shorter notices dead publishers sooner and costs 3 * copies / ttl_s messages a second
    for each record."""

    ask_timeout_s: float = 1.0
    """How long a holder may take to answer before it is asked again."""

    ask_attempts: int = 3
    """Questions to one holder before it counts as silent: at 20 % loss of messages, 5 in 100 live ones do."""

    asks_max: int = 96
    """Most questions of one request, so that peers who invent ever nearer contacts cannot keep it running. A
    lookup among 10,000 honest peers needs about 20."""

    searches_max: int = 64
    """Most requests under way at once. More are answered at once as failed, with the reason "busy"."""

    retry_s: float = 10.0
    """When to try again if a record of ours could be stored nowhere."""

    settle_s: float = 1.0
    """How long to collect changes of the leaf set before handing over. Longer merges more of them into one
    pass over our records; until then a new holder does not know what it should hold."""

    pushers: int = 2
    """How many of a key's holders hand its records over. With one, its death at that moment costs a copy
    until the next renewal; each more repeats every byte."""

    records_max: int = 2048
    """Most records that we hold: 2 MiB as they usually are, 13 MiB at worst."""

    per_publisher_max: int = 256
    """Most records of one publisher that we hold, so that one certificate cannot fill a holder."""

    per_key_max: int = 256
    """Most publishers of one name, such as the devices that offer the source "readings"."""
