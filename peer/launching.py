"""Lead a launch: from a sealed bundle to running instances, on behalf of whoever asked this scheduler.

The steps are `dataflow.deploying.launch`, the places are `dataflow.placement`; this finds the offers in the directory,
carries the questions, and remembers nothing afterwards. A bundle that runs already is not launched again: the answer
is the running app.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import trio

from dataflow.bundles.importing import load_bundle
from dataflow.bundles.sealing import open_sealed, unpack_sealed
from dataflow.deploying.charter import Charter
from dataflow.deploying.launch import Abandoned, Ask, Found, Launch, Launched, LaunchRefused, Leaves, Placed, Route
from dataflow.deploying.reasons import Reasons, Way
from dataflow.deploying.requests import Room
from dataflow.errors import AppError
from dataflow.generations.members import choose_members
from dataflow.generations.promise import Promise
from dataflow.generations.record import SECRET_BYTES, Record
from dataflow.hosting.assignment import Assignment
from dataflow.placement.candidates import Candidate, DoesNotFit
from dataflow.placement.needs import memory_needs_mib
from dataflow.placement.place import place
from dataflow.placement.shape import shape_of
from dataflow.placement.tree import Route as TreeRoute
from dataflow.plan import Plan, make_plan
from overlay.contact import Contact
from overlay.ids import Key, PeerId, key_of, short
from overlay.wire import WireError
from peer.app_directory import ALIVE, APPS, KEEPER, Listed, newest, read_listing
from peer.app_host import AppHost
from peer.complaint import Complaint
from peer.courier_trio import Unanswered
from peer.founding_trio import Unfounded, found_register
from peer.offers import SOURCE, read_offer

ANSWER_S_MAX: Final = 20.0
"""What one step may take: building an app on a busy device is the longest."""
ASKS_MAX: Final = 1 << 20
OFFER_LOOKS: Final = 4
OFFER_PAUSE_S: Final = 0.5
"""A device that has just joined may not have published its offers yet."""
PLACE_TRIES: Final = 3
"""Placements that are tried while hosts turn out to be full or gone, other than their neighbours believed."""
PLACE_PAUSE_S: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Placed):
    assignment: Assignment
    reasons: Mapping[str, str]
    contacts: tuple[Contact, ...]


class Launcher:
    def __init__(self, host: AppHost) -> None:
        self._host = host
        self._rng = Random()

    async def launch(self, sealed: bytes, *, is_rehearsal: bool = False, attempt: int = 0) -> dict[str, Any]:
        """Launch it, or say in a `Complaint` why not. A rehearsal decides everything and starts nothing.

        `attempt`: so many led this launch before us and fell silent; our generation overtakes theirs.
        """
        try:
            verified = open_sealed(unpack_sealed(sealed), read=self._host.runtime.read_certificate, now=time.time())
            app = await trio.to_thread.run_sync(load_bundle, verified)
            plan = make_plan(app.graph)
        except AppError as error:
            raise Complaint(str(error), "Mend it, then launch again.") from None
        app_id = verified.bundle.id
        earlier = [it for it in await self.listed() if it.app == app_id]
        if any(it.state in ALIVE for it in earlier):
            return _runs_already(app_id, app.name, plan, max(it.generation for it in earlier))
        generation = 1 + max((it.generation for it in earlier), default=0) + attempt
        offers = await self._offers(plan)
        memory_mib = memory_needs_mib(plan, verified.bundle.limits)
        decided: list[Decided] = []
        avoid: set[PeerId] = set()

        def decide(routes: Sequence[Route], rooms: Sequence[Room], leaves: Leaves) -> Decided:
            known = [_without_hearsay(it, avoid, leaves) for it in rooms]
            placed = place_app(
                app_id, app.name, generation, plan, app.promise, memory_mib, sealed, routes, known, leaves
            )
            decided[:] = [placed]
            if is_rehearsal:
                raise LaunchRefused("")
            return decided[0]

        for _ in range(PLACE_TRIES):
            machine = Launch(
                app_id,
                app.name,
                offers=offers,
                sinks={name: sink_key(app_id, name) for name in plan.sinks},
                decide=decide,
                first_ask=self._host.courier.numbers(ASKS_MAX),
            )
            outcome = await self._carry(machine)
            if isinstance(outcome, Launched) or outcome.avoid is None:
                break
            avoid.add(outcome.avoid)
            await trio.sleep(self._rng.uniform(0.5, 1.5) * PLACE_PAUSE_S)
        if isinstance(outcome, Abandoned) and not (is_rehearsal and decided):
            raise Complaint(
                f'App "{app.name}" was not launched: {outcome.reason}.',
                "Nothing of it runs. See `peer peers`, `peer offers`.",
            )
        return facts_of(app.name, plan, decided[0]) | {"is_rehearsal": is_rehearsal, "was_running": False}

    async def listed(self) -> list[Listed]:
        """Every app that some peer keeps, by name."""
        listing = await self._host.runtime.get(KEEPER, APPS)
        found: list[Listed] = []
        for record in listing.records:
            try:
                found += read_listing(record)
            except WireError:
                continue  # one keeper's rubbish hides nobody else's apps
        return newest(found)

    async def _offers(self, plan: Plan) -> dict[str, list[Contact]]:
        offers: dict[str, list[Contact]] = {}
        for name in plan.sources:
            for attempt in range(OFFER_LOOKS):
                await trio.sleep(OFFER_PAUSE_S * bool(attempt))
                listing = await self._host.runtime.get(SOURCE, name)
                offers[name] = sorted((read_offer(it) for it in listing.records), key=lambda contact: contact.peer)
                if offers[name]:
                    break
            else:
                raise Complaint(
                    f'No peer offers source "{name}".',
                    f"Bind it on a device with peer run --source {name}=SPEC; `peer offers` shows what is bound.",
                )
        return offers

    async def _carry(self, machine: Launch[Decided]) -> Launched[Decided] | Abandoned:
        """Put the machine's questions, all at once, until it says how it ended."""
        ends: list[Launched[Decided] | Abandoned] = []

        async def put(ask: Ask) -> None:
            number = ask.request.ask
            try:
                answer = await self._host.courier.ask(ask.to, ask.request, ask.charter, within_s=ANSWER_S_MAX)
            except Unanswered as error:
                carry(machine.unanswered(number, str(error)))
            else:
                carry(machine.answered(number, answer.reply))

        async def found(decided: Decided) -> None:
            try:
                await found_register(self._host.courier, self._host.runtime.nodes[0].me, decided.charter, self._rng)
            except Unfounded as error:
                carry(machine.unfounded(str(error)))
            else:
                carry(machine.founded())

        def carry(step: Sequence[Ask | Found[Decided] | Launched[Decided] | Abandoned]) -> None:
            for each in step:
                if isinstance(each, Ask):
                    nursery.start_soon(put, each)
                elif isinstance(each, Found):
                    nursery.start_soon(found, each.placed)
                else:
                    ends.append(each)

        async with trio.open_nursery() as nursery:
            carry(machine.begin())
        return ends[0]


def sink_key(app: str, stream: str) -> Key:
    """The rendezvous of a free sink."""
    return key_of(f"{app}/{stream}")


def facts_of(name: str, plan: Plan, decided: Decided) -> dict[str, Any]:
    places = []
    for there in decided.assignment.places:
        it = there.instance
        what = sorted(plan.sinks)[-1 - it.stage] if it.is_sink else plan.stages[it.stage].name
        places.append(
            {
                "instance": str(it),
                "name": what,
                "peer": short(there.peer),
                "why": decided.reasons.get(str(it), ""),
            }
        )
    return {
        "app": decided.assignment.app,
        "name": name,
        "generation": decided.assignment.generation,
        "streams": sorted(plan.sinks),
        "places": places,
    }


def _runs_already(app: str, name: str, plan: Plan, generation: int) -> dict[str, Any]:
    """The same bundle again: nothing is started twice."""
    facts = {"app": app, "name": name, "generation": generation, "streams": sorted(plan.sinks), "places": []}
    return facts | {"is_rehearsal": False, "was_running": True}


def _without_hearsay(room: Room, avoid: Collection[PeerId], leaves: Leaves) -> Room:
    """A peer that refused us or is gone has no room, whatever its neighbours say; its own word of now counts again."""
    peer = room.contact.peer
    return replace(room, slots_used=room.slots) if peer in avoid and peer not in leaves else room


def place_app(
    app: str,
    name: str,
    generation: int,
    plan: Plan,
    promise: Promise,
    memory_mib: Mapping[int, int],
    sealed: bytes,
    routes: Sequence[Route],
    rooms: Sequence[Room],
    leaves: Leaves,
) -> Decided:
    """Where everything goes, packed for the hosts; `LaunchRefused` if it does not fit."""
    contacts = {room.contact.peer: room.contact for room in rooms}
    candidates = [
        Candidate(
            room.contact.peer,
            boot_ms=room.contact.boot_ms,
            zone=room.contact.zone,
            slots=room.slots,
            slots_used=room.slots_used,
            load=room.load,
            memory_free_mib=room.memory_free_mib,
            leaves=tuple(sorted(leaves.get(room.contact.peer, ()))),
        )
        for room in rooms
    ]
    ways = [TreeRoute(it.source, it.sink, tuple(hop.peer for hop in it.hops)) for it in routes]
    try:
        placement = place(app, shape_of(plan, memory_mib=memory_mib), ways, candidates, generation=generation)
    except (DoesNotFit, ValueError) as error:
        raise LaunchRefused(str(error).rstrip(".")) from None
    assignment = placement.assignment
    hosts = tuple(contacts[peer] for peer in assignment.peers())
    members = choose_members(app, contacts.values())
    sources = set(plan.sources.values())
    record = Record(
        name=name,
        life=generation,
        assignment=assignment,
        contacts=tuple({it.peer: it for it in (*hosts, *members)}.values()),
        members=tuple(it.peer for it in members),
        secret=secrets.token_bytes(SECRET_BYTES),
        guarantee=promise.guarantee,
        epoch_ms=promise.epoch_ms,
        homes={it.instance: it.peer for it in assignment.places if it.instance.stage in sources},
    )
    loads = {room.contact.peer: room.load for room in rooms}
    reasons = Reasons(
        {str(instance): why for instance, why in placement.reasons.items()},
        tuple(Way(it.source, it.sink, tuple(short(hop) for hop in it.hops)) for it in ways),
        {short(peer): round(loads[peer], 3) for peer in assignment.peers()},
    )
    return Decided(
        generation=assignment.generation,
        slots={peer: len(assignment.on(peer)) for peer in assignment.peers()},
        memory_mib={
            peer: sum(memory_mib.get(it.stage, 0) for it in assignment.on(peer)) for peer in assignment.peers()
        },
        charter=Charter(record, sealed, reasons.pack()).pack(),
        assignment=assignment,
        reasons=reasons.places,
        contacts=hosts,
    )
