"""End an app in one of three ways, on all its hosts.

    cancel        at once: what is under way is dropped
    stop          sources are closed; what was read reaches the sinks; windows that are open give no result
    stop --drain  sources end as if no more was to come: open windows give their results, then the app ends by itself

A stop closes all sources first, then waits until nothing is under way (`hosting/tally.py` says how that is known), then
ends the app. It waits a bounded time: rows that a slow sink has not taken by then are dropped, and that is said.

A stop and a cancel come back when the app is listed as over, so that whoever launches it again at once is not told that
it runs already. A drain takes as long as it takes, and is not waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from dataflow.deploying.requests import Agreed, CloseSources, Halt
from dataflow.generations.messages import Finish
from dataflow.hosting.tally import UnderWay
from overlay.contact import Contact
from overlay.ids import short
from peer.app_asking import Asking, contacts_in, listed_row
from peer.app_directory import ALIVE, Listed
from peer.complaint import Complaint
from peer.courier_trio import Unanswered

HOWS: Final = ("stop", "drain", "cancel")
REST_S_MAX: Final = 20.0
"""How long a stop waits for what is under way."""
ROUND_S: Final = 0.05
HALT_S: Final = 5.0
LISTED_S_MAX: Final = 8.0
"""How long a halted app may take to close its sinks and workers, and its keeper to publish that."""


async def end_app(asking: Asking, listed: Listed, how: str) -> dict[str, Any]:
    if how not in HOWS:
        raise Complaint(f"There is no way {how!r} to end an app.", f"There are: {', '.join(HOWS)}.")
    if listed.state not in ALIVE:
        raise Complaint(f'App "{listed.name}" ({listed.app[:8]}) is {listed.state} already.', "See `peer apps`.")
    contacts = await asking.hosts(listed)
    is_at_rest = await _come_to_rest(asking, listed, contacts) if how == "stop" else how == "drain"
    silent = await _drain(asking, listed, contacts) if how == "drain" else await _finish(asking, listed, how == "stop")
    is_over = how != "drain" and not silent and await _is_listed_over(asking, listed)
    return listed_row(listed) | {"is_over": is_over, "how": how, "is_whole": is_at_rest, "silent": silent}


async def _come_to_rest(asking: Asking, listed: Listed, contacts: Sequence[Contact]) -> bool:
    """True if nothing was under way any more; False if it took too long, or a host did not answer."""
    before: UnderWay | None = None
    with trio.move_on_after(REST_S_MAX):
        while True:
            told = await asking.reports(
                contacts, lambda _: CloseSources(asking.number(), listed.app, listed.generation)
            )
            total = UnderWay(0, 0, 0)
            for each in told.values():
                if isinstance(each, Complaint):
                    return False
                total += UnderWay(each["waiting"], each["sent"], each["taken"])
            if total.is_at_rest and total == before:
                return True
            before = total
            await trio.sleep(ROUND_S)
    return False


async def _is_listed_over(asking: Asking, listed: Listed) -> bool:
    with trio.move_on_after(LISTED_S_MAX):
        while any(
            (it.app, it.generation) == (listed.app, listed.generation) and it.state in ALIVE
            for it in await asking.listed()
        ):
            await trio.sleep(ROUND_S)
        return True
    return False


async def _finish(asking: Asking, listed: Listed, is_clean: bool) -> list[str]:
    """Tell whoever leads the app's register; returns who did not answer, if none does."""
    facts = await asking.facts(listed.keeper, listed)
    silent: list[str] = []
    for contact in contacts_in(facts, "members"):
        request = Finish(asking.number(), listed.app, is_clean, "it was told to stop")
        try:
            answer = await asking.host.courier.ask(contact, request, within_s=HALT_S)
        except Unanswered as error:
            silent.append(f"{short(contact.peer)}: {error}")
            continue
        if isinstance(answer.reply, Agreed):
            return []
        silent.append(f"{short(contact.peer)}: {getattr(answer.reply, 'reason', 'no')}")
    return silent


async def _drain(asking: Asking, listed: Listed, contacts: Sequence[Contact]) -> list[str]:
    """Tell all of them; returns who did not answer."""
    silent: list[str] = []

    async def tell(contact: Contact) -> None:
        request = Halt(asking.number(), listed.app, listed.generation, True, "it was told to stop")
        try:
            await asking.host.courier.ask(contact, request, within_s=HALT_S)
        except Unanswered as error:
            silent.append(f"{short(contact.peer)}: {error}")

    async with trio.open_nursery() as nursery:
        for contact in contacts:
            nursery.start_soon(tell, contact)
    return sorted(silent)
