"""What a person may ask any peer about apps: launch one, list them, look at one, read its rows, end it.

Every verb works through every peer: see `app_asking.py`. Who may ask what from afar is in `visiting_trio.py`.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from dataflow.deploying.reasons import read_reasons
from dataflow.deploying.requests import Explain, Inquire, ReadEvents, ReadRows, Rows
from overlay.contact import Contact
from overlay.ids import short
from overlay.wire import WireError
from peer.app_answers import AppAnswers
from peer.app_asking import ASK_S, Asking, contacts_in, listed_row
from peer.app_directory import APPS, KEEPER, Listed, listing_value
from peer.app_host import AppHost
from peer.app_summary import summary_of
from peer.complaint import Complaint
from peer.control_trio import Answers
from peer.launching import Launcher
from peer.offers import OFFERS, SOURCE, SOURCES, offer_value, offers_value, read_offers
from peer.scheduling import Scheduling
from peer.stopping import end_app

READ_WAIT_MS_MAX: Final = 2000


class AppVerbs:
    def __init__(self, host: AppHost) -> None:
        self._host = host
        self._launcher = Launcher(host)
        self.scheduling = Scheduling(host, self._launcher)
        self._asking = Asking(host, self._launcher)
        self._answers = AppAnswers(host)
        host.announce = self._announce

    def answers(self) -> Answers:
        return {
            "launch": self._launch,
            "apps": self._apps,
            "app": self._app,
            "explain": self._explain,
            "logs": self._logs,
            "tail": self._tail,
            "end": self._end,
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
        """Offer our sources once we are in the ring: each by its name, and all of them for `peer offers`."""
        runtime = self._host.runtime
        await runtime.joined.wait()
        me, names = runtime.nodes[0].me, sorted(self._host.sources)
        for name in names:
            await runtime.publish(SOURCE, name, offer_value(me))
        if names:
            await runtime.publish(OFFERS, SOURCES, offers_value(me, names))

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
        return [listed_row(it) for it in await self._asking.listed()]

    async def _app(self, arguments: dict[str, Any]) -> Any:
        listed = await self._asking.find(arguments)
        contacts = await self._asking.hosts(listed)
        told = await self._asking.reports(contacts, lambda _: Inquire(self._asking.number(), listed.app))
        return listed_row(listed) | summary_of(told)

    async def _explain(self, arguments: dict[str, Any]) -> Any:
        """Where its instances are and why, the ways of its JOINs, and how loaded its hosts were and are."""
        listed = await self._asking.find(arguments)
        kept = await self._asking.report(listed.keeper, Explain(self._asking.number(), listed.app))
        reasons = read_reasons(str(kept.get("reasons", "")))
        contacts = await self._asking.hosts(listed)
        told = await self._asking.reports(contacts, lambda _: Inquire(self._asking.number(), listed.app))
        places = [
            {"instance": instance, "name": name, "peer": peer, "why": reasons.places.get(instance, "")}
            for instance, name, peer in kept.get("places", [])
        ]
        hosts = [
            {
                "peer": (peer := short(contact.peer)),
                "zone": contact.zone,
                "address": contact.address,
                "instances": sum(it["peer"] == peer for it in places),
                "load_then": reasons.loads.get(peer),
                "load_now": None if isinstance(facts, Complaint) else facts.get("load"),
            }
            for contact, facts in told.items()
        ]
        ways = [{"source": it.source, "sink": it.sink, "hops": list(it.hops)} for it in reasons.ways]
        return listed_row(listed) | {"places": places, "hosts": hosts, "routes": ways}

    async def _logs(self, arguments: dict[str, Any]) -> Any:
        """Events of all hosts by time, from the positions that the asker has reached."""
        listed = await self._asking.find(arguments)
        reached = arguments.get("positions")
        positions = {str(peer): max(0, int(at)) for peer, at in (reached if isinstance(reached, dict) else {}).items()}
        contacts = await self._asking.hosts(listed)
        told = await self._asking.reports(
            contacts, lambda it: ReadEvents(self._asking.number(), listed.app, positions.get(short(it.peer), 0))
        )
        events, missed, is_all, silent = [], 0, True, []
        for contact, page in told.items():
            peer = short(contact.peer)
            if isinstance(page, Complaint):
                silent.append(peer)
                continue
            events += [{"peer": peer, "zone": contact.zone, **it} for it in page["events"]]
            missed += page["first"] - positions.get(peer, 0)
            is_all = is_all and page["is_all"]
            positions[peer] = page["next"]
        events.sort(key=lambda it: (it["at_ms"], it["peer"]))
        return listed_row(listed) | {
            "events": events,
            "positions": positions,
            "missed": missed,
            "is_all": is_all,
            "silent": silent,
        }

    async def _tail(self, arguments: dict[str, Any]) -> Any:
        listed = await self._asking.find(arguments)
        position = int(arguments.get("position", 0))
        keeper, stream = await self._keeper_of(listed, str(arguments.get("stream", "")))
        request = ReadRows(
            self._asking.number(),
            listed.app,
            stream,
            str(arguments.get("reader", "tail"))[:64],
            max(0, position),
            position < 0,
            READ_WAIT_MS_MAX,
        )
        answer = await self._asking.ask(keeper, request, within_s=ASK_S + READ_WAIT_MS_MAX / 1000)
        if not isinstance(answer.reply, Rows):
            raise Complaint(f"Peer {short(keeper.peer)} gave no rows.", "Try again.")
        reply = answer.reply
        facts = await self._asking.facts(keeper, listed) if reply.is_ended else {}
        return {
            "rows": base64.b64encode(b"".join(bytes(part) for part in answer.body)).decode(),
            "first": reply.first,
            "next": reply.next,
            "is_ended": reply.is_ended,
            "state": _state_of_stream(facts),
            "reason": facts.get("reason", ""),
        }

    async def _end(self, arguments: dict[str, Any]) -> Any:
        return await end_app(self._asking, await self._asking.find(arguments), str(arguments.get("how", "stop")))

    async def _offers(self, arguments: dict[str, Any]) -> Any:
        if arguments.get("is_here"):
            bound = [("source", self._host.sources), ("sink", self._host.sinks)]
            return [{"kind": kind, "name": it, "spec": specs[it]} for kind, specs in bound for it in sorted(specs)]
        rows = []
        for record in (await self._host.runtime.get(OFFERS, SOURCES)).records:
            try:
                contact, names = read_offers(record)
            except WireError:
                continue  # one device's rubbish hides nobody else's offers
            row = {"peer": short(contact.peer), "zone": contact.zone, "address": contact.address}
            rows += [{"source": name} | row for name in names]
        return sorted(rows, key=lambda it: (it["source"], it["peer"]))

    async def _keeper_of(self, listed: Listed, stream: str) -> tuple[Contact, str]:
        """Who keeps the rows of the stream whose name begins like this, and what its whole name is."""
        facts = await self._asking.facts(listed.keeper, listed)
        names = sorted(facts["sinks"])
        found = [it for it in names if it == stream] or [it for it in names if stream and it.startswith(stream)]
        if len(found) != 1:
            fact = f"has no stream {stream!r}" if not found else f"has several streams that begin with {stream!r}"
            raise Complaint(f'App "{listed.name}" {fact}.', f"It has: {', '.join(names)}.")
        place = facts["sinks"][found[0]]
        return next(it for it in contacts_in(facts) if short(it.peer) == place), found[0]


def _state_of_stream(facts: dict[str, Any]) -> str:
    """How it is with a stream, by the facts of its keeper, or by none while rows come.

    A stream that has ended while its app is still running has seen all its input: the rest of the app will follow.
    """
    state = str(facts.get("state", "running"))
    return "ended" if facts and state == "running" else state
