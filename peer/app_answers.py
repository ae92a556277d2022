"""What this peer answers other peers about its share of an app, beyond launching: reasons, events, coming to rest."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

import trio

from dataflow.deploying.requests import CloseSources, Explain, ReadEvents, Report
from dataflow.hosting.tally import UnderWay
from overlay.contact import Contact
from overlay.frames import Buffer
from peer.app_facts import reasons_facts
from peer.app_host import AppHost
from peer.courier_trio import Answer, Refusal
from peer.tenant import Tenant

ALONE_S_MAX: Final = 60.0
"""An app whose sources are closed ends by itself after this: whoever stopped it is gone."""


class AppAnswers:
    def __init__(self, host: AppHost) -> None:
        self._host = host
        self._closing: set[tuple[str, int]] = set()
        host.courier.answer(Explain, self._explain)
        host.courier.answer(ReadEvents, self._read_events)
        host.courier.answer(CloseSources, self._close_sources)

    async def _explain(self, asker: Contact, it: Explain, body: Buffer) -> Answer:
        return Answer(Report(it.ask, json.dumps(reasons_facts(self._tenant(it.app)))))

    async def _read_events(self, asker: Contact, it: ReadEvents, body: Buffer) -> Answer:
        self._tenant(it.app)
        return Answer(Report(it.ask, json.dumps(self._host.events.page(it.app, it.position))))

    async def _close_sources(self, asker: Contact, it: CloseSources, body: Buffer) -> Answer:
        tenant = self._tenant(it.app)
        if tenant.generation != it.generation:
            raise Refusal(f"is in generation {tenant.generation} of that app")
        if tenant.share is None or tenant.is_over:
            return Answer(Report(it.ask, json.dumps(asdict(UnderWay(0, 0, 0)))))
        life = (it.app, it.generation)
        if life not in self._closing:
            self._closing.add(life)
            self._host.events.add(it.app, "stopping", "sources are closed, what was read goes on")
            self._host.shell.carry(tenant.tenancy.close_sources())
            self._host.start_soon(self._end_alone, tenant)
        return Answer(Report(it.ask, json.dumps(asdict(tenant.share.under_way()))))

    async def _end_alone(self, tenant: Tenant) -> None:
        await trio.sleep(ALONE_S_MAX)
        self._closing.discard((tenant.app, tenant.generation))
        reason = "it was told to stop, and nobody came back to end it"
        self._host.shell.carry(tenant.tenancy.halt(tenant.generation, reason))

    def _tenant(self, app: str) -> Tenant:
        tenant = self._host.tenants.get(app)
        if tenant is None:
            raise Refusal("does not host that app")
        return tenant
