"""Every random choice of a simulation, from one number.

Each part of the world draws from a stream of its own, named after it: adding a draw in the network does not
shift what churn draws, so two runs that differ in one option stay comparable.

Rejected: one shared `Random` (every new draw anywhere changes everything after it), and `hash()` (it
differs from process to process).
"""

from hashlib import blake2b
from random import Random


def rng_of(seed: int, *names: object) -> Random:
    """The random stream called `names` of the world with this seed.

    >>> rng_of(7, "churn").random() == rng_of(7, "churn").random()
    True
    >>> rng_of(7, "churn").random() == rng_of(7, "network").random()
    False
    """
    text = "/".join([str(seed), *map(str, names)])
    digest = blake2b(text.encode(), digest_size=16, person=b"shoal-seed").digest()
    return Random(int.from_bytes(digest, "big"))
