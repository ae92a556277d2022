"""What a person may ask any peer about apps: launch one, list them, look at one, read its rows, end it.

Every verb works through every peer: the directory tells who keeps an app, the keeper tells who hosts it.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from dataflow.deploying.requests import Declined, Halt, Inquire, ReadRows, Report, Rows
from overlay.contact import Contact
from overlay.ids import short
from peer.app_directory import APPS, KEEPER, Listed, find_app, listing_value
from peer.app_host import AppHost
from peer.complaint import Complaint
from peer.control_trio import Answers
from peer.courier_trio import Answer, Unanswered
from peer.launching import Launcher
from peer.offers import SOURCE, offer_value
from peer.scheduling import Scheduling

ASK_S: Final = 5.0
READ_WAIT_MS_MAX: Final = 2000


class AppVerbs:
    def __init__(self, host: AppHost) -> None:
        self._host = host
        self._launcher = Launcher(host)
        self.scheduling = Scheduling(host, self._launcher)
        host.announce = self._announce

    def answers(self) -> Answers:
        return {
            "launch": self._launch,
            "apps": self._apps,
            "app": self._app,
            "tail": self._tail,
            "halt": self._halt,
            "offers": self._offers,
        }

    def status(self) -> dict[str, Any]:
        """What apps mean to this peer: for `peer status`."""
        ledger = self._host.ledger
        return {
            "slots": ledger.slots,
            "slots_used": ledger.slots_used,
            "memory_mib": ledger.memory_mib,
            "memory_used_mib": ledger.memory_used_mib,
            **self.scheduling.status(),
        }

    async def publish(self) -> None:
        """Offer our sources once we are in the ring."""
        runtime = self._host.runtime
        await runtime.joined.wait()
        for name in sorted(self._host.sources):
            await runtime.publish(SOURCE, name, offer_value(runtime.nodes[0].me))

    async def _announce(self) -> None:
        """Publish which apps we keep."""
        runtime = self._host.runtime
        me = runtime.nodes[0].me
        kept = [
            (it.app, it.name, it.generation, str(it.state))
            for it in reversed(self._host.tenants.values())
            if it.is_kept_by(me.peer)
        ]
        if kept:
            await runtime.publish(KEEPER, APPS, listing_value(me, kept))
        self.scheduling.look_again()

    # -- verbs --

    async def _launch(self, arguments: dict[str, Any]) -> Any:
        try:
            sealed = base64.b64decode(str(arguments.get("sealed", "")), validate=True)
        except ValueError:
            raise Complaint("That is no sealed bundle.", "Launch with `peer launch`.") from None
        return await self.scheduling.launch(sealed, is_rehearsal=bool(arguments.get("is_rehearsal")))

    async def _apps(self, arguments: dict[str, Any]) -> Any:
        return [_listed_row(it) for it in await self._launcher.listed()]

    async def _app(self, arguments: dict[str, Any]) -> Any:
        listed = find_app(await self._launcher.listed(), str(arguments.get("app", "")))
        hosts = {}
        for contact in await self._hosts(listed):
            try:
                hosts[short(contact.peer)] = {"zone": contact.zone, **await self._facts(contact, listed)}
            except Complaint as complaint:
                hosts[short(contact.peer)] = {"zone": contact.zone, "state": "silent", "reason": complaint.message}
        return _listed_row(listed) | {"hosts": hosts}

    async def _tail(self, arguments: dict[str, Any]) -> Any:
        listed = find_app(await self._launcher.listed(), str(arguments.get("app", "")))
        stream = str(arguments.get("stream", ""))
        position = int(arguments.get("position", 0))
        keeper = await self._keeper_of(listed, stream)
        request = ReadRows(
            self._host.courier.numbers(1),
            listed.app,
            stream,
            str(arguments.get("reader", "tail"))[:64],
            max(0, position),
            position < 0,
            READ_WAIT_MS_MAX,
        )
        answer = await self._ask(keeper, request, within_s=ASK_S + READ_WAIT_MS_MAX / 1000)
        if not isinstance(answer.reply, Rows):
            raise Complaint(f"Peer {short(keeper.peer)} gave no rows.", "Try again.")
        reply = answer.reply
        facts = await self._facts(keeper, listed) if reply.is_ended else {}
        return {
            "rows": base64.b64encode(b"".join(bytes(part) for part in answer.body)).decode(),
            "first": reply.first,
            "next": reply.next,
            "is_ended": reply.is_ended,
            "state": facts.get("state", "running"),
            "reason": facts.get("reason", ""),
        }

    async def _halt(self, arguments: dict[str, Any]) -> Any:
        listed = find_app(await self._launcher.listed(), str(arguments.get("app", "")))
        is_drained = bool(arguments.get("is_drained"))
        silent = []
        for contact in await self._hosts(listed):
            request = Halt(
                self._host.courier.numbers(1), listed.app, listed.generation, is_drained, "it was told to stop"
            )
            try:
                await self._host.courier.ask(contact, request, within_s=ASK_S)
            except Unanswered as error:
                silent.append(f"{short(contact.peer)}: {error}")
        return _listed_row(listed) | {"is_drained": is_drained, "silent": silent}

    async def _offers(self, arguments: dict[str, Any]) -> Any:
        return [{"source": name, "spec": spec} for name, spec in sorted(self._host.sources.items())]

    # -- asking --

    async def _hosts(self, listed: Listed) -> list[Contact]:
        facts = await self._facts(listed.keeper, listed)
        return [Contact(*it[:3], zone=it[3], boot_ms=it[4]) for it in facts["contacts"]]

    async def _keeper_of(self, listed: Listed, stream: str) -> Contact:
        facts = await self._facts(listed.keeper, listed)
        if stream in facts["streams"]:
            return listed.keeper
        contacts = {short(it[0]): Contact(*it[:3], zone=it[3], boot_ms=it[4]) for it in facts["contacts"]}
        if stream not in facts["sinks"]:
            raise Complaint(
                f'App "{listed.name}" has no stream {stream!r}.', f"It has: {', '.join(sorted(facts['sinks']))}."
            )
        return contacts[facts["sinks"][stream]]

    async def _facts(self, contact: Contact, listed: Listed) -> dict[str, Any]:
        answer = await self._ask(contact, Inquire(self._host.courier.numbers(1), listed.app), within_s=ASK_S)
        assert isinstance(answer.reply, Report)
        facts: dict[str, Any] = json.loads(answer.reply.facts)
        return facts

    async def _ask(self, contact: Contact, request: Any, *, within_s: float) -> Answer:
        try:
            answer = await self._host.courier.ask(contact, request, within_s=within_s)
        except Unanswered as error:
            raise Complaint(
                f"Peer {short(contact.peer)} did not answer: {error}.", "See `peer peers`, try again."
            ) from None
        if isinstance(answer.reply, Declined):
            raise Complaint(f"Peer {short(contact.peer)}: {answer.reply.reason}.", "See `peer apps`.")
        return answer


def _listed_row(it: Listed) -> dict[str, Any]:
    return {
        "app": it.app,
        "name": it.name,
        "generation": it.generation,
        "state": it.state,
        "keeper": short(it.keeper.peer),
    }
