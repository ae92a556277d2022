"""Everything that can go wrong with the network, each as one named option.

A `Faults` never changes. An experiment names the faults it wants; a swarm test lets each seed draw its own
mix, because two faults together find what each alone does not.

Cutting links by hand is `World.partition`; the `*_per_min` options below let a seed do it.
"""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What the network does to messages. All zero: it only takes its time.

    >>> Faults(loss=0.05).loss
    0.05
    """

    loss: float = 0.0
    """Share of messages that vanish."""

    duplicate: float = 0.0
    """Share of messages that arrive twice."""

    reorder: float = 0.0
    """Share of messages held back, so that later ones overtake them."""

    reorder_s: float = 0.2
    """How long such a message is held back at most."""

    jitter_s: float = 0.0
    """Added to every message's way, uniformly from zero. Above the gap between messages it reorders too."""

    bandwidth_bytes_per_s: float = 0.0
    """What a peer can send; messages queue behind each other. Zero: no limit."""

    queue_s_max: float = 2.0
    """A message that would wait longer than this for the uplink is dropped, as a full buffer would."""

    one_way_cuts_per_min: float = 0.0
    """How often some peer stops hearing another for `cut_s`, while the other still hears it."""

    two_way_cuts_per_min: float = 0.0
    """How often two peers lose each other for `cut_s`."""

    cut_s: float = 5.0
    """How long such a cut lasts."""

    pauses_per_min: float = 0.0
    """How often some peer stands still for `pause_s`, as under SIGSTOP, and then catches up."""

    pause_s: float = 1.0
    """How long such a pause lasts."""

    hints: bool = True
    """Do peers learn that a connection closed or was refused when a process dies? A power cut never tells."""

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder"):
            share = getattr(self, name)
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"{name} is a share from 0 to 1, not {share}")

    @classmethod
    def drawn(cls, rng: Random) -> "Faults":
        """One seed's own mix: every fault is on in half of the seeds, and then mild or harsh."""

        def draw(low: float, high: float) -> float:
            value = rng.uniform(low, high)
            return value if rng.random() < 0.5 else 0.0

        return cls(
            loss=draw(0.005, 0.1),
            duplicate=draw(0.005, 0.1),
            reorder=draw(0.005, 0.2),
            reorder_s=rng.uniform(0.05, 0.5),
            jitter_s=draw(0.001, 0.05),
            bandwidth_bytes_per_s=draw(50_000, 1_000_000),
            one_way_cuts_per_min=draw(0.5, 5.0),
            two_way_cuts_per_min=draw(0.5, 5.0),
            cut_s=rng.uniform(0.5, 8.0),
            pauses_per_min=draw(0.5, 5.0),
            pause_s=rng.uniform(0.2, 3.0),
            hints=rng.random() < 0.5,
        )
