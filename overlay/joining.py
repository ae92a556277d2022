"""Become part of the ring: Pastry's join, on the XOR metric.

A newcomer routes a JOIN to its own id. Hop i shares i digits with it, so hop i's row i is a fit row i for the
newcomer; the last hop owns its id, so that one's leaf set is nearly its own. Then it announces itself outwards:
whoever hears of it answers with its own leaves, if the newcomer is near enough for them to matter, and those
hear of it next, until nobody new turns up.

Why this finds everyone who must count us among its leaves: let such a peer A be in the sibling subtree S at some
height. A would not count us if S held more than a leaf set. So S is small, every member of S knows all of S, and
one contact in S is enough to be told of A. Therefore we also announce ourselves to one peer of every sibling subtree.

Until that is done, routed messages that reach us wait (`Router.release`). Pure.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from overlay.contact import Contact
from overlay.effects import Effects, Joined, Later, OnEvent, OnMessage, Send
from overlay.ids import PeerId, shared_digits
from overlay.messages.joining import Announce, Announced, JoinLeaves, JoinRow
from overlay.messages.routing import Forward
from overlay.routing import Router
from overlay.settings import Settings
from overlay.view import View
from overlay.wire import CONTACTS_MAX

JOIN = "join"
"""The kind of routed message that brings a newcomer to the owner of its id."""


class Stage(Enum):
    """How far we are into the ring."""

    OUTSIDE = auto()
    ASKING = auto()
    ANNOUNCING = auto()
    MEMBER = auto()


@dataclass(frozen=True, slots=True)
class Announcing:
    """From now on others know us."""


@dataclass(frozen=True, slots=True)
class _JoinDue:
    attempt: int


@dataclass(frozen=True, slots=True)
class _AnnounceDue:
    nonce: int
    to: Contact
    tries: int


class Joiner:
    """Our own way in, and our help for others on theirs."""

    def __init__(self, me: Contact, view: View, settings: Settings, *, rng: random.Random) -> None:
        self._me = me
        self._view = view
        self._settings = settings
        self._rng = rng
        self.stage = Stage.OUTSIDE
        self._seeds: Sequence[Contact] = ()
        self._attempt = 0
        self._announced: set[PeerId] = set()
        self._answered: set[PeerId] = set()
        self._unanswered: dict[int, PeerId] = {}
        self._router: Router | None = None
        self.events: dict[type, OnEvent] = {_JoinDue: self._on_join_due, _AnnounceDue: self._on_announce_due}
        self.messages: dict[type, OnMessage] = {
            JoinRow: self._on_row,
            JoinLeaves: self._on_leaves,
            Announce: self._on_announce,
            Announced: self._on_announced,
        }

    def attach(self, router: Router) -> None:
        """The router and the joiner need each other; the node ties the knot."""
        self._router = router

    @property
    def is_member(self) -> bool:
        return self.stage is Stage.MEMBER

    def join(self, seeds: Sequence[Contact], now: float) -> Effects:
        """Enter the ring through any of `seeds`; without any, be its first peer."""
        self._seeds = [seed for seed in seeds if seed.peer != self._me.peer]
        self._announced.clear()
        self._answered.clear()
        self._unanswered.clear()
        self.stage = Stage.ASKING
        if not self._seeds:
            return [Announcing(), *self._become_member(now)]
        return self._ask(now)

    def _ask(self, now: float) -> Effects:
        assert self._router is not None
        # Seeds may have died since; whoever we met on the way in may know a better one.
        doors = [*self._seeds, *self._view.contacts()]
        seed = doors[self._attempt % len(doors)]
        self._attempt += 1
        due = Later(now + self._settings.join_timeout_s, _JoinDue(self._attempt))
        return [due, *self._router.send_through(seed, self._me.peer, JOIN, now)]

    def _on_join_due(self, event: _JoinDue, now: float) -> Effects:
        if self.stage is Stage.ASKING and event.attempt == self._attempt:
            return self._ask(now)
        return []

    # The upcall: what a member does with somebody else's JOIN that passes here or ends here.

    def passing(self, message: Forward, next_hop: Contact | None, now: float) -> tuple[bytes | None, Effects]:
        """Give the newcomer the rows that it does not yet have from the hops before us."""
        newcomer = message.origin
        first = shared_digits(message.route[-1].contact.peer, newcomer.peer) + 1 if message.route else 0
        last = shared_digits(self._me.peer, newcomer.peer)
        effects: Effects = []
        for row in range(first, last + 1):
            contacts = [it for it in self._view.table.row(row) if it.peer != newcomer.peer]
            effects.append(Send(newcomer, JoinRow(row, tuple(contacts[:CONTACTS_MAX]))))
        return message.payload, effects

    def arrived(self, message: Forward, now: float) -> tuple[bytes, Effects]:
        leaves = tuple(it for it in self._view.leaves.contacts() if it.peer != message.origin.peer)
        return b"", [Send(message.origin, JoinLeaves(leaves))]

    # What a newcomer does with the answers.

    def _on_row(self, sender: Contact, message: JoinRow, now: float) -> Effects:
        if self.stage is not Stage.OUTSIDE:
            self._view.hear_of((sender, *message.contacts), now)
        return []

    def _on_leaves(self, sender: Contact, message: JoinLeaves, now: float) -> Effects:
        if self.stage is not Stage.ASKING:
            return []
        self.stage = Stage.ANNOUNCING
        self._view.hear_of((sender, *message.contacts), now)
        told = self._announce_to((sender, *message.contacts), now)
        told += self._announce_to(self._view.nearest(self._me.peer, self._settings.leaves), now)
        return [Announcing(), *told]

    def _announce_to(self, contacts: Sequence[Contact], now: float) -> Effects:
        effects: Effects = []
        for contact in contacts:
            peer = contact.peer
            if peer != self._me.peer and peer not in self._announced and not self._view.is_buried(contact, now):
                self._announced.add(peer)
                effects += self._announce(contact, now, tries=1)
        return effects

    def _announce(self, contact: Contact, now: float, *, tries: int) -> Effects:
        nonce = self._rng.getrandbits(64)
        self._unanswered[nonce] = contact.peer
        due = Later(now + self._settings.ask_timeout_s, _AnnounceDue(nonce, contact, tries))
        return [Send(contact, Announce(nonce, wants_leaves=True)), due]

    def _on_announce(self, sender: Contact, message: Announce, now: float) -> Effects:
        if not message.wants_leaves:
            return []
        near = self._view.leaves.reaches(sender.peer)
        contacts = tuple(self._view.leaves.contacts()) if near else ()
        return [Send(sender, Announced(message.nonce, contacts))]

    def _on_announced(self, sender: Contact, message: Announced, now: float) -> Effects:
        if self._unanswered.pop(message.nonce, None) != sender.peer:
            return []
        self._answered.add(sender.peer)
        return self._announce_to(message.contacts, now) + self._finish_if_done(now)

    def _on_announce_due(self, event: _AnnounceDue, now: float) -> Effects:
        if self._unanswered.pop(event.nonce, None) is None:
            return []
        if event.tries < self._settings.ask_attempts:
            return self._announce(event.to, now, tries=event.tries + 1)
        self._view.drop(event.to)
        return self._finish_if_done(now)

    def refused(self, peer: PeerId, now: float) -> Effects:
        """Nobody listens at that peer's address: do not wait for it."""
        if self.stage is not Stage.ANNOUNCING or peer not in self._unanswered.values():
            return []
        for nonce in [nonce for nonce, asked in self._unanswered.items() if asked == peer]:
            del self._unanswered[nonce]
        return self._finish_if_done(now)

    def _finish_if_done(self, now: float) -> Effects:
        if self.stage is not Stage.ANNOUNCING or self._unanswered:
            return []
        if not self._view.leaves:
            # Nobody whom the owner named is there: ask again, through another seed.
            self.stage = Stage.ASKING
            return self._ask(now)
        return self._announce_to(self._siblings(), now) or self._become_member(now)

    def _siblings(self) -> list[Contact]:
        """One contact in every sibling subtree, small to large, where nobody has heard of us yet.

        Some of those that we were told of are dead; then another is tried, until one answers.
        """
        heights = {(peer ^ self._me.peer).bit_length() for peer in self._answered}
        found: dict[int, Contact] = {}
        for contact in self._view.table:
            height = (contact.peer ^ self._me.peer).bit_length()
            if height not in heights and contact.peer not in self._announced:
                found.setdefault(height, contact)
        return [found[height] for height in sorted(found)]

    def _become_member(self, now: float) -> Effects:
        assert self._router is not None
        self.stage = Stage.MEMBER
        far = [it for it in self._view.table.one_per_cell() if it.peer not in self._announced]
        told: Effects = [Send(it, Announce(0, wants_leaves=False)) for it in far]
        self._announced.clear()
        self._answered.clear()
        return [*told, Joined(len(self._view.contacts())), *self._router.release(now)]
