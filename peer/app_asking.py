"""Find an app on the ring and ask its hosts about it.

The directory tells who keeps an app, the keeper tells who hosts it: so every verb works through every peer. Hosts are
asked all at once, and one that is silent is told as silent, not waited for by the others' answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import trio

from dataflow.deploying.requests import Declined, Inquire, Report, Request
from overlay.contact import Contact
from overlay.ids import short
from peer.app_directory import Listed, find_app
from peer.app_host import AppHost
from peer.complaint import Complaint
from peer.courier_trio import Answer, Unanswered
from peer.launching import Launcher

ASK_S: Final = 5.0

Told = dict[str, Any] | Complaint
"""What a host told, or why it did not."""


class Asking:
    def __init__(self, host: AppHost, launcher: Launcher) -> None:
        self.host = host
        self._launcher = launcher

    async def listed(self) -> list[Listed]:
        return await self._launcher.listed()

    async def find(self, arguments: dict[str, Any]) -> Listed:
        return find_app(await self.listed(), str(arguments.get("app", "")))

    async def facts(self, contact: Contact, listed: Listed) -> dict[str, Any]:
        return await self.report(contact, Inquire(self.number(), listed.app))

    async def hosts(self, listed: Listed) -> list[Contact]:
        """By the keeper's word. `Complaint` if it is silent."""
        return contacts_in(await self.facts(listed.keeper, listed))

    async def report(self, contact: Contact, request: Request) -> dict[str, Any]:
        """What a peer reports; a `Complaint` if it does not."""
        answer = await self.ask(contact, request, within_s=ASK_S)
        try:
            facts = json.loads(answer.reply.facts) if isinstance(answer.reply, Report) else None
        except ValueError:
            facts = None
        if not isinstance(facts, dict):
            raise Complaint(f"Peer {short(contact.peer)} gave no report.", "Is it of this version? See `peer peers`.")
        return facts

    async def reports(
        self, contacts: Sequence[Contact], request: Callable[[Contact], Request]
    ) -> dict[Contact, Told]:
        """What each of them reports, asked all at once."""
        told: dict[Contact, Told] = {}

        async def one(contact: Contact) -> None:
            try:
                told[contact] = await self.report(contact, request(contact))
            except Complaint as complaint:
                told[contact] = complaint

        async with trio.open_nursery() as nursery:
            for contact in contacts:
                nursery.start_soon(one, contact)
        return {contact: told[contact] for contact in contacts}

    async def ask(self, contact: Contact, request: Request, *, within_s: float) -> Answer:
        try:
            answer = await self.host.courier.ask(contact, request, within_s=within_s)
        except Unanswered as error:
            raise Complaint(
                f"Peer {short(contact.peer)} did not answer: {error}.", "See `peer peers`, try again."
            ) from None
        if isinstance(answer.reply, Declined):
            raise Complaint(f"Peer {short(contact.peer)}: {answer.reply.reason}.", "See `peer apps`.")
        return answer

    def number(self) -> int:
        return self.host.courier.numbers(1)


def contacts_in(facts: dict[str, Any], name: str = "contacts") -> list[Contact]:
    return [Contact(*it[:3], zone=it[3], boot_ms=it[4]) for it in facts[name]]


def listed_row(it: Listed) -> dict[str, Any]:
    return {
        "app": it.app,
        "name": it.name,
        "generation": it.generation,
        "state": it.state,
        "keeper": short(it.keeper.peer),
    }
