"""Was it one list that everybody saw grow? Raises `Forked` with what was seen, if not."""

from __future__ import annotations

from recovery.register.proposer import Decided, Refused
from tests.recovery.register.world import Op, World, items, reading


class Forked(AssertionError):  # noqa: N818 (it says what happened)
    pass


def last_word(world: World) -> list[str]:
    """What the register keeps when all is quiet: asked by somebody who knows the latest config that has a member."""
    end = world.ends(7, world.proposal(7, reading, world.latest()), within_s=120.0)
    if not isinstance(end, Decided | Refused):
        raise Forked(f"seed {world.seed}: the storm is over and the register has no value: {end}")
    return items(end.content)


def check(world: World, chain: list[str]) -> None:
    def require(is_true: bool, sentence: str) -> None:
        if not is_true:
            raise Forked(f"seed {world.seed}: {sentence}")

    require(len(set(chain)) == len(chain), f"a change was applied twice: {chain}")
    longest_before = _longest_before(world.ops)
    by_version: dict[int, list[str]] = {}
    for op in world.ops:
        if op.content is None:
            continue
        require(op.content == chain[: len(op.content)], f"{op.name} saw {op.content}, but the last word is {chain}")
        require(len(op.content) >= longest_before(op), f"{op.name} saw less than one that had ended before it began")
        assert isinstance(op.end, Decided | Refused)
        seen = by_version.setdefault(op.end.version, op.content)
        require(seen == op.content, f"version {op.end.version} is both {seen} and {op.content}")
        if op.kind in ("append", "set"):
            is_in = op.name in (op.content if isinstance(op.end, Decided) else chain)
            require(is_in == isinstance(op.end, Decided), f"{op.name} was told {type(op.end).__name__}: {chain}")


def _longest_before(ops: list[Op]):
    ended = [(op.ended, len(op.content)) for op in ops if op.ended is not None and op.content is not None]
    return lambda op: max((length for at, length in ended if at < op.began), default=0)
