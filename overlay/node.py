"""One peer of the ring: all machines of the overlay, put together.

The node hands each message, timer and hint to the machine that knows it, and lets the machines react to what
the others found out: a confirmed death leaves the view, a changed leaf set is probed anew, and so on. It decides
nothing else.

Pure: `now` and an `rng` come in, `Effects` go out. `peer.runtime` drives it on sockets, `sim.world` on virtual time.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from overlay.contact import Contact
from overlay.directory import DIRECTORY_EVENTS, DIRECTORY_MESSAGES, Directory
from overlay.effects import (
    Answer,
    Confirmed,
    Departed,
    Effects,
    Joined,
    LeavesChanged,
    OnEvent,
    OnMessage,
    Refused,
    Send,
    Suspected,
    Trusted,
)
from overlay.gossip import GOSSIP_EVENTS, GOSSIP_MESSAGES, Gossip
from overlay.ids import Key, PeerId
from overlay.joining import JOIN, Announcing, Joiner
from overlay.leafset import Change, LeafSet
from overlay.messages.finding import FindNode
from overlay.messages.joining import Leaving
from overlay.messages.probing import Ack, Nack, Ping, PingRequest, Rumour, Rumours
from overlay.messages.routing import Forward, HopTaken, RouteEnded
from overlay.neighbourhood import neighbourhood
from overlay.probe_events import PROBE_EVENTS, Slept
from overlay.probe_settings import ProbeSettings
from overlay.prober import Prober
from overlay.records import record_key
from overlay.routing import Router, Upcall
from overlay.settings import Settings
from overlay.trust import OPEN, Trust
from overlay.upkeep import Upkeep
from overlay.view import View
from overlay.vitals import Vitals

_NOT_YET_A_MEMBER = (FindNode, Forward)
"""Messages that a newcomer sends before it is part of the ring: they do not put it into anybody's view."""

_STILL_HEARD_WHEN_LEAVING = (Forward, HopTaken, RouteEnded)
"""Who takes leave still hands on what was on its way, and starts nothing new."""


class OverlayNode:
    def __init__(
        self,
        me: Contact,
        *,
        rng: random.Random,
        settings: Settings | None = None,
        probing: ProbeSettings | None = None,
        trust: Trust = OPEN,
        upcalls: Mapping[str, Upcall] | None = None,
    ) -> None:
        self.me = me
        self.settings = settings or Settings()
        self.vitals = Vitals(cores=1, memory_mib=0, slots=1, slots_used=0, load=0.0)
        self.view = View(me, self.settings)
        self._watchers: dict[PeerId, Contact] = {}
        self._is_running = False
        self._was_member = False
        self._joiner = Joiner(me, self.view, self.settings, rng=rng)
        self._router = Router(
            me,
            self.view,
            self.settings,
            rng=rng,
            upcalls={JOIN: self._joiner, **(upcalls or {})},
            is_ready=lambda: self._joiner.is_member,
            search=lambda key, now: self._upkeep.find(key, now, width=self.settings.search_width),
        )
        self._joiner.attach(self._router)
        self._upkeep = Upkeep(
            me,
            self.view,
            self.settings,
            rng=rng,
            vitals=lambda: self.vitals,
            is_member=lambda: self._joiner.is_member,
        )
        self.prober = Prober(
            me,
            settings=probing or ProbeSettings(),
            rng=rng,
            vitals=lambda: self.vitals,
            audience=self._audience,
        )
        self.prober.on_rtt = self.view.facts.measured
        self._rng = rng
        self.directory = Directory(
            me,
            nearest=self.view.nearest,
            check=trust.check,
            sign=trust.sign,
            nonce=lambda: rng.getrandbits(64),
            rng=rng,
        )
        self.gossip = Gossip(
            me, pick=self._anybody, read_denylist=trust.read_denylist, rng=rng, denylist=trust.denylist
        )
        self._messages: dict[type, OnMessage] = {
            Leaving: self._on_leaving,
            Ping: self._on_ping,
            **dict.fromkeys((Ack, Nack, PingRequest, Rumours), self.prober.receive),
            **dict.fromkeys(DIRECTORY_MESSAGES, self.directory.receive),
            **dict.fromkeys(GOSSIP_MESSAGES, self.gossip.receive),
        }
        self._wakes: dict[type, OnEvent] = {
            **dict.fromkeys(PROBE_EVENTS, self.prober.wake),
            **dict.fromkeys(DIRECTORY_EVENTS, self.directory.wake),
            **dict.fromkeys(GOSSIP_EVENTS, self.gossip.wake),
        }
        for machine in (self._router, self._joiner, self._upkeep):
            self._messages |= machine.messages
            self._wakes |= machine.events
        self._reactions: dict[type, OnEvent] = {
            Answer: self._on_answer,
            Announcing: self._on_announcing,
            Joined: self._on_joined,
            Suspected: self._on_suspected,
            Trusted: self._on_trusted,
            Confirmed: self._on_confirmed,
            Departed: self._on_departed,
            Slept: self._on_slept,
        }

    @property
    def leaves(self) -> LeafSet:
        return self.view.leaves

    @property
    def is_member(self) -> bool:
        return self._joiner.is_member

    def neighbourhood(self, most: int = 16) -> list[Contact]:
        """The quickest peers to reach, our zone first."""
        return neighbourhood(self.me, self.view.contacts(), self.view.facts, most)

    # What the shell asks of us.

    def join(self, seeds: Sequence[Contact], now: float) -> Effects:
        """Enter the ring through any of `seeds`, or be its first peer. `Joined` tells when it is done."""
        return self._react(self._joiner.join(seeds, now), now)

    def leave(self, now: float) -> Effects:
        """Take leave: everyone who counts on us hears of it and gets to know our leaves."""
        hand_over = self.directory.leave(now)
        farewell = Leaving(self.prober.incarnation, tuple(self.leaves))
        self.prober.stop()
        self.view.is_leaving = True
        return hand_over + [Send(contact, farewell) for contact in self._audience()]

    def route(self, key: Key, kind: str, payload: bytes, now: float) -> tuple[int, Effects]:
        """Send `payload` to the owner of `key`; `Answer(request, RouteResult | RouteFailure)` follows."""
        request, effects = self._router.route(key, kind, payload, now)
        return request, self._react(effects, now)

    def find(self, key: Key, now: float, *, width: int = 24) -> tuple[int, Effects]:
        """Find the `width` peers nearest to `key`; `Answer(request, contacts)` follows."""
        return self._upkeep.find(key, now, width=width)

    def publish(self, kind: str, name: str, value: bytes, now: float) -> tuple[int, Effects]:
        """Offer `value` in the directory until `withdraw`; `Answer(request, Stored)` follows."""
        request = self._rng.getrandbits(64)
        return request, self.directory.publish(kind, name, value, request, now)

    def withdraw(self, kind: str, name: str, now: float) -> tuple[int, Effects]:
        """Offer it no longer; `Answer(request, Stored)` follows."""
        request = self._rng.getrandbits(64)
        return request, self.directory.withdraw(kind, name, request, now)

    def get(self, kind: str, name: str, now: float) -> tuple[int, Effects]:
        """Who offers what under this name? `Answer(request, Listing)` follows."""
        request = self._rng.getrandbits(64)
        return request, self.directory.get(record_key(kind, name), request, now)

    # What happens to us.

    def receive(self, sender: Contact, message: Any, now: float) -> Effects:
        kind = type(message)
        handler = self._messages.get(kind)
        if handler is None:
            return [Refused(sender.peer, "unexpected-message")]
        if self.view.is_leaving and kind not in _STILL_HEARD_WHEN_LEAVING:
            return []
        if kind in _NOT_YET_A_MEMBER:
            return self._react(handler(sender, message, now), now)
        if self.view.has_left(sender):
            return []
        return self._see(sender, now) + self._react(handler(sender, message, now), now)

    def wake(self, event: Any, now: float) -> Effects:
        """A timer that we set with `Later` is due."""
        return self._react(self._wakes[type(event)](event, now), now)

    def link_lost(self, peer: PeerId, reason: str, now: float) -> Effects:
        """The connection to a peer broke ("closed") or could not be made ("refused"): a hint, not a verdict."""
        effects = self.prober.link_lost(peer, reason, now)
        if reason == "refused":
            for machine in (self._upkeep, self._joiner, self._router):
                effects = effects + machine.refused(peer, now)
        return self._react(effects, now)

    # How the machines hear of one another.

    def _react(self, effects: Effects, now: float) -> Effects:
        """Let ourselves hear what our machines observed, after everyone else."""
        more: Effects = []
        for effect in effects:
            reaction = self._reactions.get(type(effect))
            if reaction is not None:
                more += reaction(effect, now)
        return effects + more if more else effects

    def _see(self, contact: Contact, now: float) -> Effects:
        former = self.leaves.get(contact.peer)
        change, oldest = self.view.see(contact, now)
        effects = [] if oldest is None else self._upkeep.challenge(oldest, now)
        if former is not None and contact.supersedes(former):
            # A leaf restarted: no key changed its owner, but it holds nothing now and may live elsewhere.
            effects = effects + self.prober.watch_change(contact, None, now)
            effects += self.directory.leaves_changed((contact,), (), now)
        if change is not None:
            effects = effects + self._leaves_changed(change, now) + self._upkeep.leaf_gained(now)
        return effects

    def _leaves_changed(self, change: Change, now: float) -> Effects:
        gained = () if change.gained is None else (change.gained,)
        lost = () if change.lost is None else (change.lost,)
        return [
            *self.prober.watch_change(change.gained, change.lost, now),
            *self.directory.leaves_changed(gained, lost, now),
            LeavesChanged(gained, lost),
        ]

    def _lose(self, contact: Contact, now: float, *, was_dead: bool) -> Effects:
        self._watchers.pop(contact.peer, None)
        change = self.view.bury(contact, now, has_left=not was_dead)
        if change is None:
            return []
        return self._leaves_changed(change, now) + self._upkeep.leaf_lost(contact, now, was_dead=was_dead)

    def _on_answer(self, effect: Answer, now: float) -> Effects:
        return self._react(self._router.found(effect.request, now), now)

    def _on_announcing(self, effect: Announcing, now: float) -> Effects:
        """Whoever hears our announcement probes us, so we must answer before we are quite a member."""
        if self._is_running:
            return []
        self._is_running = True
        return self.prober.start(now)

    def _on_joined(self, effect: Joined, now: float) -> Effects:
        if self._was_member:
            return []
        self._was_member = True
        return self._upkeep.start(now) + self.gossip.start(now)

    def _on_suspected(self, effect: Suspected, now: float) -> Effects:
        self.view.suspects.add(effect.contact.peer)
        return []

    def _on_trusted(self, effect: Trusted, now: float) -> Effects:
        self.view.suspects.discard(effect.contact.peer)
        if self.view.get(effect.contact.peer) is not None:
            return []
        # We had buried it, and it is said to be back: its own answer will put it into our view again.
        self.view.exhume(effect.contact.peer)
        return self._upkeep.verify((effect.contact,), now)

    def _on_confirmed(self, effect: Confirmed, now: float) -> Effects:
        return self._lose(effect.contact, now, was_dead=True)

    def _on_departed(self, effect: Departed, now: float) -> Effects:
        return self._lose(effect.contact, now, was_dead=False)

    def _on_slept(self, effect: Slept, now: float) -> Effects:
        """We were stopped for so long that others may have buried us: enter again, through those we knew."""
        return self._joiner.join(self.view.contacts(), now)

    def _on_ping(self, sender: Contact, message: Ping, now: float) -> Effects:
        """Who probes us has us in its leaf set: it will want to hear when we leave."""
        self._watchers.pop(sender.peer, None)
        self._watchers[sender.peer] = sender
        if len(self._watchers) > self.settings.watchers_max:
            del self._watchers[next(iter(self._watchers))]
        return self.prober.receive(sender, message, now)

    def _on_leaving(self, sender: Contact, message: Leaving, now: float) -> Effects:
        word = Rumours((Rumour("left", sender, message.incarnation, ()),))
        effects = self.prober.receive(sender, word, now) or [Departed(sender)]
        return self._react(effects, now) + self._upkeep.verify(message.contacts, now)

    def _anybody(self) -> Contact | None:
        """A random contact, so that gossip leaves our corner."""
        contacts = self.view.contacts()
        return self._rng.choice(contacts) if contacts else None

    def _audience(self) -> list[Contact]:
        """Who should hear news of our corner of the ring: our leaves, and those whose leaf we are."""
        leaves = list(self.leaves)
        return leaves + [it for peer, it in self._watchers.items() if peer not in self.leaves]

