"""Every number of the failure detector, with its meaning, its formula and its price."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    period_s: float = 1.0
    """Pause between two probes. Detection without a hint takes about one period, since all watchers of a peer
    together probe it once in each; traffic is two messages a period, whatever the size of the ring."""

    timeout_min_s: float = 0.2
    """An ack has at least this long: a garbage collection or a waking radio must not look like death."""

    timeout_max_s: float = 0.5
    """An ack has at most this long, and this long while the round-trip time is unknown. Between the bounds:
    smoothed RTT + 4 * its mean deviation (as TCP does). A later ack still counts, it only costs helpers."""

    indirect_timeout_s: float = 0.8
    """How long the helpers have together: two far round trips. Half of it if the peer refused us."""

    helpers: int = 3
    """Peers asked to ping for us. At loss p a probe fails wrongly with (1 - (1-p)^2) * (1 - (1-p)^4)^helpers:
    0.06 % at 5 % and 7 % at 20 % loss with three; each helper costs four messages per failed direct probe."""

    suspicion_min_periods: float = 2.0
    """Shortest wait between suspicion and confirmation: this * max(1, log10(n)) * period, n = watched peers
    and ourselves; 2.6 s for n = 20. Then two probes of our own and one of each of two others have failed, and
    nothing of the accused was heard in that time. At 5 % loss: 0.0006^4 = 10^-13 a suspicion; at 20 %:
    0.07^4 = 3 * 10^-5. Shorter repairs the ring sooner, and takes pauses of a busy device for death."""

    suspicion_max_factor: float = 6.0
    """Longest wait (no other witness) over the shortest: 15.6 s for n = 20. It must outlast any passing fault
    of our own link; a peer that nobody else watches stays so long in our leaf set after its death."""

    gossip_period_s: float = 0.2
    """Pause between two rounds of rumours, if there are any. Each triples (`gossip_fanout`) who knows."""

    gossip_fanout: int = 3
    """Peers told in one round: with 3, about (1 + 3 * (1 - loss))^rounds know it, 24 after three or four."""

    tell_multiplier: int = 4
    """A rumour is told this * ceil(log10(audience + 1)) times by each to whom it is news: 8 times among 20.
    Fewer may leave someone out (who then finds out by its own probes); more repeats what is known."""

    late_s: float = 0.2
    """A timer that comes later than this shows that we are slow: its probe gets the time once more."""
