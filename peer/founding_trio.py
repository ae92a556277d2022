"""Make the register of an app that is being launched, and tell its members to look after it."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import trio

from dataflow.deploying.charter import unpack_charter
from dataflow.deploying.requests import Agreed
from dataflow.generations.caretaker import pack_keep
from dataflow.generations.life import life_of
from dataflow.generations.messages import Keep
from overlay.contact import Contact
from overlay.ids import PeerId, short
from peer.courier_trio import Answer, Courier, Unanswered
from recovery.register.membership import Founding
from recovery.register.proposer import Ask, Decided, NoQuorum, Unwilling, Wait

VOTE_S: Final = 5.0


class Unfounded(Exception):  # noqa: N818 (it says what is)
    """There is no register; the sentence says who did not take part."""


async def found_register(courier: Courier, me: Contact, packed: bytes, rng: Random) -> None:
    charter = unpack_charter(packed)
    record = charter.record
    contacts: dict[PeerId, Contact] = {it.peer: it for it in record.contacts}
    machine = Founding(
        life_of(record),
        record.members,
        me.peer,
        lambda known: record.pack() if known is None else known,
        next_ask=lambda: courier.numbers(1),
        rng=rng,
    )
    end = await _run(courier, contacts, machine)
    if isinstance(end, Unwilling):
        raise Unfounded(f"peers {', '.join(map(short, end.peers))} did not take part in its register")
    if isinstance(end, NoQuorum):
        raise Unfounded(f"{end.found} of {end.needed} needed members of its register answered")
    if not isinstance(end, Decided):
        raise Unfounded("its register keeps another launch of it")
    body = pack_keep(end.config, charter)
    agreed = 0
    for peer in record.members:
        try:
            answer = await courier.ask(
                contacts[peer], Keep(courier.numbers(1), record.app, record.life), body, within_s=VOTE_S
            )
        except Unanswered:
            continue
        agreed += isinstance(answer.reply, Agreed)
    if agreed < end.config.quorum:
        raise Unfounded(f"{agreed} of {len(record.members)} members of its register look after it")


async def _run(courier: Courier, contacts: dict[PeerId, Contact], machine: Founding) -> Any:
    """Put a machine's questions until it says how it ended."""
    ends: list[Any] = []

    async def put(ask: Ask) -> None:
        try:
            answer: Answer = await courier.ask(contacts[ask.to], ask.request, ask.body, within_s=VOTE_S)
        except Unanswered:
            carry(machine.unanswered(ask.request.ask))
        else:
            body = b"".join(bytes(part) for part in answer.body)
            carry(machine.answered(ask.request.ask, answer.reply, body))

    async def wait(seconds: float) -> None:
        await trio.sleep(seconds)
        carry(machine.waited())

    def carry(steps: Any) -> None:
        for step in steps:
            if isinstance(step, Ask):
                nursery.start_soon(put, step)
            elif isinstance(step, Wait):
                nursery.start_soon(wait, step.seconds)
            else:
                ends.append(step)
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        carry(machine.begin())
    return ends[0]
