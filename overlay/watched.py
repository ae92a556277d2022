"""What a prober remembers: of a peer that it watches, of a probe under way, of a ping sent for somebody else.

Plain records with slots, because ten thousand probers of a simulation keep two dozen each. Nothing is decided here.
"""

from overlay.contact import Contact
from overlay.ids import PeerId
from overlay.suspicion import Suspicion
from overlay.vitals import Vitals


class Watched:
    """What we know of one peer that we probe."""

    __slots__ = ("contact", "incarnation", "judge_at", "left", "rtt_dev_s", "rtt_s", "said", "suspicion",
                 "trial", "vitals")  # fmt: skip

    def __init__(self, contact: Contact) -> None:
        self.contact = contact
        self.incarnation = 0
        self.vitals: Vitals | None = None
        self.rtt_s: float | None = None
        self.rtt_dev_s = 0.0
        self.trial: Trial | None = None
        self.suspicion: Suspicion | None = None
        self.said = False
        """Have we said `Suspected`? Then we owe a `Trusted` or a verdict."""
        self.left = False
        """Does somebody say that it left on purpose? Then one failed probe of our own is enough."""
        self.judge_at = 0.0


class Trial:
    """One probe under way."""

    __slots__ = ("due", "extended", "helpers", "nacks", "nonce", "refused", "sent_at", "watched")

    def __init__(self, nonce: int, watched: Watched, now: float) -> None:
        self.nonce = nonce
        self.watched = watched
        self.sent_at = now
        self.due = now
        self.extended = False
        self.refused = False
        self.helpers: list[PeerId] | None = None
        """Asked, and not heard from yet. None while only we ask."""
        self.nacks = 0


class Relay:
    """One ping that we send for somebody else."""

    __slots__ = ("asker", "asker_nonce", "target")

    def __init__(self, asker: Contact, asker_nonce: int, target: PeerId) -> None:
        self.asker = asker
        self.asker_nonce = asker_nonce
        self.target = target
