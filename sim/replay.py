"""A failed simulation says how to see it again.

One seed is one run, so the command is all that a colleague needs. Under pytest it is the test's own; an
experiment names its `peer sim` command.
"""

import os
import shlex
from collections.abc import Sequence


class SimulationError(AssertionError):
    """A promise was broken at a virtual time; `replay` is the one command that shows it again."""

    def __init__(self, reason: str, *, seed: int, now: float, replay: str, last: Sequence[str] = ()) -> None:
        tail = "".join(f"\n  {line}" for line in last)
        super().__init__(
            f"{reason}\n(seed {seed}, {now:.3f} virtual seconds)"
            + (f"\nThe last {len(last)} events:{tail}" if last else "")
            + f"\nReplay it with: {replay}"
        )
        self.reason = reason
        self.seed = seed
        self.now = now
        self.replay = replay


def replay_command() -> str:
    """How to run again what runs now, if nobody said otherwise."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if test:
        return f"python -m pytest {shlex.quote(test.rsplit(' ', 1)[0])}"
    return "the same command with the same seed"
