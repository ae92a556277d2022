"""Keep the view true while peers come and go: repair the leaf set, refresh the table, heal a split ring.

- *Repair*: after a loss the outermost leaves are asked whom they know near us, and whoever they name and we lack is
  asked next. While all is quiet two leaves at a time are asked; the pauses double up to `repair_max_s`.
- *Measure*: one contact of the table at a time is asked for a key in its own cell. Its answer tells the
  round-trip time, its load, that it is alive, and names others for that cell.
- *Heal*: now and then a peer that was confirmed dead is asked too. Should it answer, the network was split and is whole
  again; the two rings then grow into one by the same repairs.

Pure.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from overlay.contact import Contact
from overlay.effects import Answer, Effects, Later, OnEvent, OnMessage, Send
from overlay.ids import ID_BITS, Key, PeerId
from overlay.lookup import Lookup
from overlay.messages.finding import FindNode, Found
from overlay.settings import Settings
from overlay.table import key_in_cell
from overlay.view import View
from overlay.vitals import Vitals
from overlay.wire import CONTACTS_MAX

LOST_MAX = 32
"""Dead peers remembered, in case they were only cut off."""

RIM = 4
"""Leaves asked after a loss. One would do if it were alive and well-informed; four forgive three."""

WANTED_ELSEWHERE = 12
"""Contacts asked for near a key that is not ours: enough to fill a cell, or to come nearer in a lookup."""

MEASURED_ALL_FACTOR = 8
"""How much rarer measurements become once every contact has one."""


@dataclass(slots=True)
class _Question:
    """A FindNode on its way. `lookup` is what it serves: a search, or nothing but the view."""

    to: Contact
    key: Key
    asked_at: float
    lookup: int | None
    tries: int


@dataclass(frozen=True, slots=True)
class _QuestionDue:
    nonce: int


@dataclass(frozen=True, slots=True)
class _RepairDue:
    number: int


@dataclass(frozen=True, slots=True)
class _MeasureDue:
    pass


class Upkeep:
    def __init__(
        self,
        me: Contact,
        view: View,
        settings: Settings,
        *,
        rng: random.Random,
        vitals: Callable[[], Vitals],
        is_member: Callable[[], bool],
    ) -> None:
        self._me = me
        self._view = view
        self._settings = settings
        self._rng = rng
        self._vitals = vitals
        self._is_member = is_member
        self._questions: dict[int, _Question] = {}
        self._lookups: dict[int, Lookup] = {}
        self._own_searches: set[int] = set()
        """Lookups that fill our own table: nobody waits for their answer."""
        self._verifying: set[PeerId] = set()
        self._lost: deque[Contact] = deque(maxlen=LOST_MAX)
        self._repair_number = 0
        self._repair_pause_s = settings.repair_min_s
        self._repair_due_at = 0.0
        self._damaged = False
        self._turn = 0
        self._unmeasured: list[Contact] = []
        self.events: dict[type, OnEvent] = {
            _QuestionDue: self._on_question_due,
            _RepairDue: self._on_repair_due,
            _MeasureDue: self._on_measure_due,
        }
        self.messages: dict[type, OnMessage] = {FindNode: self._on_find, Found: self._on_found}

    def start(self, now: float) -> Effects:
        """We are a member: begin the rounds, with a look at the rim, where a join is least exact."""
        self._damaged = True
        measure = Later(now + self._rng.uniform(0, self._settings.measure_s), _MeasureDue())
        return [measure, *self._fill_gaps(now), *self._plan_repair(now, self._settings.repair_min_s)]

    # Searches, for ourselves and for callers.

    def find(self, key: Key, now: float, *, width: int) -> tuple[int, Effects]:
        """Find the `width` peers nearest to `key`. Returns the request that a later `Answer` will name."""
        request = self._rng.getrandbits(64)
        return request, self._search(request, key, now, width=width)

    def _search(self, request: int, key: Key, now: float, *, width: int) -> Effects:
        known = self._view.nearest(key, width)
        self._lookups[request] = Lookup(key, width=width, me=self._me.peer, seeds=known)
        return self._go_on(request, now)

    def _go_on(self, request: int, now: float) -> Effects:
        lookup = self._lookups[request]
        effects: Effects = []
        for contact in lookup.next():
            effects += self._ask(contact, lookup.key, now, lookup=request)
        if lookup.is_done:
            del self._lookups[request]
            if request in self._own_searches:
                self._own_searches.remove(request)
            else:
                effects.append(Answer(request, tuple(lookup.nearest())))
        return effects

    def _ask(self, to: Contact, key: Key, now: float, *, lookup: int | None = None, tries: int = 1) -> Effects:
        nonce = self._rng.getrandbits(64)
        self._questions[nonce] = _Question(to, key, now, lookup, tries)
        wait_s = self._settings.ask_timeout_s * tries  # a peer that is slow rather than dead gets more time
        return [Send(to, FindNode(nonce, key, self._want(key, lookup))), Later(now + wait_s, _QuestionDue(nonce))]

    def _want(self, key: Key, lookup: int | None) -> int:
        """How many contacts to ask for. Near ourselves twice the leaf set: some of those named will have died."""
        if key == self._me.peer:
            return min(2 * self._settings.leaves, CONTACTS_MAX)
        width = self._lookups[lookup].width if lookup in self._lookups else 0
        return min(max(width, WANTED_ELSEWHERE), CONTACTS_MAX)

    def _on_find(self, sender: Contact, message: FindNode, now: float) -> Effects:
        want = min(message.want, CONTACTS_MAX)
        contacts = [it for it in self._view.nearest(message.key, want + 1) if it.peer != sender.peer]
        return [Send(sender, Found(message.nonce, tuple(contacts[:want]), self._vitals()))]

    def _on_found(self, sender: Contact, message: Found, now: float) -> Effects:
        question = self._questions.pop(message.nonce, None)
        if question is None or question.to.peer != sender.peer:
            return []
        view = self._view
        self._verifying.discard(sender.peer)
        view.facts.measured(sender.peer, now - question.asked_at)
        view.facts.reported(sender.peer, message.vitals)
        view.table.see(sender, now)
        fresh = view.not_buried(message.contacts, now)
        view.table.hear_of(fresh, now)
        if question.lookup is not None and question.lookup in self._lookups:
            self._lookups[question.lookup].on_found(sender.peer, fresh)
            return self._go_on(question.lookup, now)
        if question.key != self._me.peer or not self._is_member():
            return []  # while we join, our announcements find out who is near
        effects = self.verify(fresh, now)
        if not self._verifying and not self._damaged:
            view.leaves.settle()
        return effects

    def _on_question_due(self, event: _QuestionDue, now: float) -> Effects:
        question = self._questions.pop(event.nonce, None)
        if question is None:
            return []
        if question.tries < self._settings.ask_attempts:
            return self._ask(question.to, question.key, now, lookup=question.lookup, tries=question.tries + 1)
        return self._give_up(question, now)

    def _give_up(self, question: _Question, now: float) -> Effects:
        """No answer, however often we asked."""
        self._verifying.discard(question.to.peer)
        evicted = self._view.strike(question.to)
        if question.lookup is not None and question.lookup in self._lookups:
            self._lookups[question.lookup].on_silent(question.to.peer)
            return self._go_on(question.lookup, now)
        return self._refill(question.to, now) if evicted else []

    # The leaf set.

    def leaf_lost(self, contact: Contact, now: float, *, was_dead: bool) -> Effects:
        """A leaf is gone: search for who takes its place."""
        if was_dead:
            self._lost.append(contact)
        self._damaged = True
        return self.leaf_gained(now)

    def leaf_gained(self, now: float) -> Effects:
        """Things move near us: look again soon."""
        if self._repair_due_at <= now + self._settings.repair_min_s * 1.25:
            return []
        return self._plan_repair(now, self._settings.repair_min_s)

    def verify(self, contacts: Iterable[Contact], now: float) -> Effects:
        """Ask those who, by hearsay, belong into our leaf set: their answer puts them there."""
        effects: Effects = []
        for contact in self._view.leaves.missing(self._view.not_buried(contacts, now)):
            if contact.peer not in self._verifying:
                self._verifying.add(contact.peer)
                effects += self._ask(contact, self._me.peer, now)
        return effects

    def _plan_repair(self, now: float, pause_s: float) -> Effects:
        self._repair_number += 1
        self._repair_pause_s = pause_s
        self._repair_due_at = now + pause_s * self._rng.uniform(0.75, 1.25)
        return [Later(self._repair_due_at, _RepairDue(self._repair_number))]

    def _on_repair_due(self, event: _RepairDue, now: float) -> Effects:
        if event.number != self._repair_number:
            return []
        if not self._is_member():
            return self._plan_repair(now, self._settings.repair_min_s)
        if self._damaged:
            return self._repair_now(now) + self._plan_repair(now, self._settings.repair_min_s)
        pause_s = min(self._repair_pause_s * 2, self._settings.repair_max_s)
        checks = self._check_two_leaves(now) + self._fill_gaps(now) + self._ask_one_lost(now)
        return checks + self._plan_repair(now, pause_s)

    def _repair_now(self, now: float) -> Effects:
        """Whoever replaces a lost leaf lives at the rim of our leaf set, so those at the rim know it best.

        Each peer they name is asked in turn (`verify`), until nobody new is named; what they all miss, the checks
        of the following seconds find.
        """
        self._damaged = False
        effects: Effects = []
        for leaf in self._view.leaves.contacts()[-RIM:]:
            effects += self._ask(leaf, self._me.peer, now)
        return effects

    def _check_two_leaves(self, now: float) -> Effects:
        """The outermost, beyond which anybody missing would live, and another in turn."""
        leaves = self._view.leaves.contacts()
        if not leaves:
            return []
        self._turn += 1
        asked = {leaf.peer: leaf for leaf in (leaves[-1], leaves[self._turn % len(leaves)])}
        return [effect for leaf in asked.values() for effect in self._ask(leaf, self._me.peer, now)]

    def _ask_one_lost(self, now: float) -> Effects:
        if not self._lost:
            return []
        contact = self._lost.popleft()
        if self._view.get(contact.peer) is not None:
            return []
        self._lost.append(contact)
        return self._ask(contact, self._me.peer, now, tries=self._settings.ask_attempts)

    # The table.

    def _fill_gaps(self, now: float) -> Effects:
        """Search in every sibling subtree beyond the leaf set where we know nobody.

        Somebody lives there, most likely; without a single contact a route that leads there would end with us.
        """
        leaves = self._view.leaves
        rim = leaves.radius_bits()
        if rim is None:
            return []
        me = self._me.peer
        known = {(peer ^ me).bit_length() for peer in self._view.table.known()}
        effects: Effects = []
        for height in range(ID_BITS, rim, -1):
            if height not in known:
                request = self._rng.getrandbits(64)
                self._own_searches.add(request)
                effects += self._search(request, Key(me ^ (1 << (height - 1))), now, width=1)
        return effects

    def challenge(self, contact: Contact, now: float) -> Effects:
        """A newcomer wants this contact's place: is it still there?"""
        return self._ask(contact, contact.peer, now)

    def refused(self, peer: PeerId, now: float) -> Effects:
        """Nobody listens at that peer's address. The table drops it at once; about a leaf the prober decides."""
        effects: Effects = []
        for nonce in [nonce for nonce, question in self._questions.items() if question.to.peer == peer]:
            effects += self._give_up(self._questions.pop(nonce), now)
        contact = self._view.table.get(peer)
        if contact is not None and peer not in self._view.leaves:
            self._view.bury(contact, now)
            effects += self._refill(contact, now)
        return effects

    def _refill(self, gone: Contact, now: float) -> Effects:
        """Ask somebody of the same row: its cell for that digit is as good as ours was."""
        if self._view.table.towards(gone.peer):
            return []
        others = [it for it in self._view.nearest(gone.peer, 4) if it.peer != gone.peer]
        if not others:
            return []
        return self._ask(self._rng.choice(others), self._key_near(gone.peer), now)

    def _key_near(self, peer: PeerId) -> Key:
        return key_in_cell(self._me.peer, peer, self._rng.getrandbits(ID_BITS))

    def _on_measure_due(self, event: _MeasureDue, now: float) -> Effects:
        is_measured = self._view.facts.is_measured
        if not self._unmeasured:
            contacts = [it for it in self._view.table if it.peer not in self._view.leaves]
            self._rng.shuffle(contacts)
            contacts.sort(key=lambda it: not is_measured(it.peer))
            self._unmeasured = contacts
        pause_s = self._settings.measure_s
        effects: Effects = []
        if self._unmeasured:
            contact = self._unmeasured.pop()
            if is_measured(contact.peer):
                pause_s *= MEASURED_ALL_FACTOR
            effects = self._ask(contact, self._key_near(contact.peer), now)
        else:
            pause_s *= MEASURED_ALL_FACTOR
        return [*effects, Later(now + pause_s * self._rng.uniform(0.75, 1.25), _MeasureDue())]
