"""Find a scheduler for an app, and let it take the app: the questions around `dataflow.placement.search`.

Gossip names peers by id; where they live is known or looked up. Whoever is not found, does not answer in time, or
answers nonsense counts as silent, and the next is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from dataflow.deploying.requests import Agreed
from dataflow.deploying.scheduling import Elsewhere, Tend
from dataflow.placement.scheduler import Accepted, Answer, Full, NoScheduler
from dataflow.placement.search import Found, Search
from overlay.contact import Contact
from overlay.ids import PeerId
from overlay.wire import CONTACTS_MAX
from peer.app_host import AppHost
from peer.courier_trio import Unanswered

TEND_ANSWER_S_MAX: Final = 3.0
"""A scheduler answers from memory. Longer forgives worse networks; a dead one delays a launch by as much."""


class SchedulerSearch:
    def __init__(self, host: AppHost) -> None:
        self._host = host

    async def claim(self, app: str, *, avoid: Iterable[PeerId] = ()) -> Contact | None:
        """A scheduler that has agreed to tend the app; None if nobody of the zone answers."""
        runtime = self._host.runtime
        search = Search(
            app,
            runtime.zone_digest(),
            peers=runtime.count_peers(),
            avoid={*avoid, *runtime.nodes[0].view.suspects},
        )
        lives: dict[PeerId, Contact] = {}
        while (ask := search.next()) is not None:
            contact = lives.get(ask.peer) or await runtime.contact_of(ask.peer)
            if contact is None:
                search.on_silence(ask.peer)
                continue
            lives[ask.peer] = contact
            answer = await self.tend(contact, app, elect=ask.elect, avoid=search.avoid, lives=lives)
            if answer is None:
                search.on_silence(ask.peer)
            else:
                search.on_answer(ask.peer, answer)
        return lives[search.outcome.peer] if isinstance(search.outcome, Found) else None

    async def tend(
        self,
        contact: Contact,
        app: str,
        *,
        elect: bool = False,
        is_over: bool = False,
        avoid: Collection[PeerId] = (),
        lives: dict[PeerId, Contact] | None = None,
    ) -> Answer | None:
        """One question, one answer; None for silence. Successors that are named are noted in `lives`."""
        courier = self._host.courier
        request = Tend(courier.numbers(1), app, elect, is_over, tuple(sorted(avoid)[:CONTACTS_MAX]))
        try:
            reply = (await courier.ask(contact, request, within_s=TEND_ANSWER_S_MAX)).reply
        except Unanswered:
            return None
        match reply:
            case Agreed():
                return Accepted()
            case Elsewhere(is_full=True, successor=(successor, *_)):
                if lives is not None:
                    lives.setdefault(successor.peer, successor)
                return Full(successor.peer)
            case Elsewhere(is_full=True):
                return Full(None)
            case Elsewhere():
                return NoScheduler()
            case _:
                return None
