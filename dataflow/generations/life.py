"""The name of one life of an app: a bundle that is launched again lives again, with a register and state of its own."""

from __future__ import annotations

from hashlib import blake2b

from dataflow.generations.record import Record


def life_id(app: str, life: int) -> str:
    """
    >>> len(life_id("ab" * 32, 1)), life_id("ab" * 32, 1) == life_id("ab" * 32, 2)
    (40, False)
    """
    return blake2b(f"{app}/{life}".encode(), digest_size=20, person=b"shoal-life").hexdigest()


def life_of(record: Record) -> str:
    return life_id(record.app, record.life)
