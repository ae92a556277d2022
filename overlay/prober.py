"""Watch the peers around us, and notice soon, but never rashly, that one is gone.

Once a period one watched peer is pinged, in a shuffled round. Silence is answered in steps:

    no ack in time        three helpers ping it for us, and tell us either way (ack or nack)
    no ack from anyone    we suspect it, become a witness, and tell our audience
    others hear of it     they probe at once, with their own eyes; each who fails is another witness
    the wait is over      we confirm it (suspicion.py says when)

The accused hears of it in every ping, raises its incarnation and so refutes; any message from it does, in our
own view. A broken connection is a hint to probe at once, a refused one is a failed direct probe.

We doubt ourselves first. Without a single nack (or refusal) the silence may be ours: such a failure is no
testimony. A timer that comes late proves that *we* were slow, so its probe gets more time. If we did not run
for a whole suspicion time (a stopped process, a closed lid), nothing that we believed counts any more:
judgement pauses, our incarnation rises before anybody asks, and `Slept` tells the node to join again.

Promises: no socket, clock or global random; memory for watched peers and a few recent guests only; one probe
at a time and peer; two timers and two messages a period when all is well.
Not promised: a rumour's list of witnesses is believed. A liar can shorten the wait to the minimum, but nobody
confirms without failed probes of its own.
Rejected: a probe of every watched peer in every period (24 times the traffic to notice a death equally soon,
for all watchers together already probe a peer about once a period); accepting another's verdict.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from overlay.awareness import Awareness
from overlay.contact import Contact
from overlay.effects import Confirmed, Departed, Effects, Later, Send, Suspected, Trusted
from overlay.ids import PeerId
from overlay.messages.probing import (
    INCARNATION_MAX,
    RUMOURS_MAX,
    Ack,
    Nack,
    Ping,
    PingRequest,
    Rumour,
    Rumours,
)
from overlay.probe_events import JudgeDue, ProbeDue, ProbeEvent, ProbeTick, RelayDue, RumourTick, Slept
from overlay.probe_settings import ProbeSettings
from overlay.rumours import RumourQueue, times_to_tell
from overlay.suspicion import WITNESSES_ENOUGH, Suspicion, Wait, wait_for
from overlay.vitals import Vitals
from overlay.watched import Relay, Trial, Watched

RELAYS_MAX = 64
"""Pings under way for others. Beyond it requests go unanswered: the asker counts a missing nack, no more."""
GUESTS_MAX = 64
"""Unwatched peers whose vitals we remember: those who have us in their leaf sets (seen: 9 to 38 of them)."""
GONE_MAX = 64
"""Confirmed or departed peers that we remember, to tell them so if they come back. The oldest makes room."""
GONE_PING_TICKS = 16
"""Every so many periods we ping one confirmed peer: after a partition somebody must speak first."""


def _life(contact: Contact, incarnation: int) -> tuple[int, int]:
    """What orders two words about one peer: a later boot outranks any incarnation of the one before."""
    return (contact.boot_ms, incarnation)


class Prober:
    """The failure detector of peer `me`.

    `vitals` is asked for every heartbeat; `audience` names whom to tell rumours (leaf set and watchers).
    `on_rtt`, if set, is called with every round-trip time measured.
    """

    def __init__(
        self,
        me: Contact,
        *,
        settings: ProbeSettings,
        rng: Random,
        vitals: Callable[[], Vitals],
        audience: Callable[[], Sequence[Contact]],
    ) -> None:
        self._me = me
        self._settings = settings
        self._rng = rng
        self._vitals = vitals
        self._audience = audience
        self.on_rtt: Callable[[PeerId, float], None] | None = None
        self.incarnation = 0
        self.awareness = Awareness()
        self._running = False
        self._watched: dict[PeerId, Watched] = {}
        self._suspects: dict[PeerId, Watched] = {}
        self._round: list[PeerId] = []
        self._round_next = 0
        self._ticks = 0
        self._trials: dict[int, Trial] = {}
        self._relays: dict[int, Relay] = {}
        self._gone: dict[PeerId, Rumour] = {}
        self._guests: dict[PeerId, Vitals] = {}
        self._rumours = RumourQueue()
        self._times_to_tell = settings.tell_multiplier
        self._gossiping = False
        self._nonce = rng.getrandbits(48)
        self._wait = self._wait_now()
        self._tick_due = 0.0
        self._awake_since = 0.0
        self._judges_from = 0.0

    # What the node asks.

    def rtt_s(self, peer: PeerId) -> float | None:
        """The smoothed round-trip time to a watched peer, once measured."""
        watched = self._watched.get(peer)
        return None if watched is None else watched.rtt_s

    def vitals_of(self, peer: PeerId) -> Vitals | None:
        """The latest vitals of a watched peer or of one that pinged us lately."""
        watched = self._watched.get(peer)
        return self._guests.get(peer) if watched is None else watched.vitals

    def is_suspected(self, peer: PeerId) -> bool:
        watched = self._watched.get(peer)
        return watched is not None and watched.said

    def is_gone(self, contact: Contact) -> bool:
        """Did we confirm this life of the peer, or see it leave, and nothing of it since?"""
        gone = self._gone.get(contact.peer)
        return gone is not None and not contact.supersedes(gone.contact)

    @property
    def wait(self) -> Wait:
        """How long a suspicion lasts now, at least and at most."""
        return self._wait

    # What the node tells.

    def start(self, now: float) -> Effects:
        """Begin to probe: at a random moment of the first period, so that peers do not march in step."""
        self._running = True
        self._awake_since = now
        self._tick_due = now + self._rng.random() * self._settings.period_s
        return [Later(self._tick_due, ProbeTick(self._tick_due))]

    def watch(self, contacts: Iterable[Contact], now: float) -> Effects:
        """Probe exactly these peers from now on. What is known of those that stay, stays."""
        effects: Effects = []
        wanted = {contact.peer: contact for contact in contacts if contact.peer != self._me.peer}
        for peer in [peer for peer in self._watched if peer not in wanted]:
            self._unwatch(peer)
        for contact in wanted.values():
            self._add(contact, effects)
        self._resize()
        return effects

    def watch_change(self, gained: Contact | None, lost: PeerId | None, now: float) -> Effects:
        """The same, told as a difference: leaf sets change by one peer at a time, thousands of times a join."""
        effects: Effects = []
        before = len(self._watched)
        if lost is not None:
            self._unwatch(lost)
        if gained is not None:
            self._add(gained, effects)
        if len(self._watched) != before:
            self._resize()
        return effects

    def _add(self, contact: Contact, effects: Effects) -> None:
        peer = contact.peer
        known = self._watched.get(peer)
        if known is None:
            watched = self._watched[peer] = Watched(contact)
            watched.vitals = self._guests.pop(peer, None)
            gone = self._gone.pop(peer, None)
            if gone is not None and not contact.supersedes(gone.contact):
                watched.incarnation = gone.incarnation
            self._round.insert(self._rng.randint(self._round_next, len(self._round)), peer)
        elif contact.supersedes(known.contact):
            self._reborn(known, contact, effects)

    def _resize(self) -> None:
        """How long we wait and how often we tell follow from how many we watch."""
        self._wait = self._wait_now()
        self._times_to_tell = times_to_tell(len(self._watched), multiplier=self._settings.tell_multiplier)

    def forget(self, peer: PeerId) -> None:
        """Drop everything about a peer, its grave included."""
        self._unwatch(peer)
        self._gone.pop(peer, None)
        self._guests.pop(peer, None)

    def heard(self, peer: PeerId) -> Effects:
        """Some other message came from this peer: it lives, as far as we are concerned."""
        effects: Effects = []
        watched = self._watched.get(peer)
        if watched is not None and (watched.suspicion is not None or watched.trial is not None):
            self._alive(watched, effects)
        return effects

    def link_lost(self, peer: PeerId, reason: str, now: float) -> Effects:
        """Our connection to a peer was `closed` by it, or a new one `refused`: look at once."""
        effects: Effects = []
        if not self._running or self._overslept(self._tick_due, now, effects):
            return effects
        refused = reason == "refused"
        if refused:
            for nonce in [nonce for nonce, relay in self._relays.items() if relay.target == peer]:
                self._give_up_relay(nonce, effects)
        watched = self._watched.get(peer)
        if watched is None:
            return effects
        trial = watched.trial
        if trial is None:
            if watched.suspicion is not None and watched.suspicion.own_failures:
                return effects  # an old story: it is probed in every period anyway
            trial = self._probe(watched, now, effects, ping=not refused)
        if refused and not trial.refused:
            trial.refused = True
            if trial.helpers is None:
                self._ask_helpers(trial, now, effects)
        return effects

    def stop(self) -> None:
        """We leave: fall silent. The node's own farewell tells everyone."""
        self._running = False

    def wake(self, event: ProbeEvent, now: float) -> Effects:
        """One of our own timers."""
        effects: Effects = []
        if self._running:
            self._overslept(event.at, now, effects)
            _ON_EVENT[type(event)](self, event, now, effects)
        return effects

    def receive(self, sender: Contact, message: Any, now: float) -> Effects:
        """One of the messages of `messages/probing.py`."""
        effects: Effects = []
        if self._running:
            if now > self._tick_due:
                self._overslept(self._tick_due, now, effects)
            _ON_MESSAGE[type(message)](self, sender, message, now, effects)
        return effects

    # Timers.

    def _on_tick(self, tick: ProbeTick, now: float, effects: Effects) -> None:
        settings = self._settings
        if self._is_late(tick.at, now):
            self.awareness.worse()
        at = self._tick_due = now + settings.period_s * self.awareness.factor
        effects.append(Later(at, ProbeTick(at)))
        if self._suspects:
            for suspect in self._suspects.values():
                if suspect.trial is None:
                    self._probe(suspect, now, effects)
        watched = self._next_in_round()
        if watched is not None and watched.trial is None:
            self._probe(watched, now, effects)
        self._ticks += 1
        if self._gone and self._ticks % GONE_PING_TICKS == 0:
            self._ping_a_grave(effects)

    def _next_in_round(self) -> Watched | None:
        while self._watched:
            if self._round_next >= len(self._round):
                self._round = list(self._watched)
                self._rng.shuffle(self._round)
                self._round_next = 0
            watched = self._watched.get(self._round[self._round_next])
            self._round_next += 1
            if watched is not None:
                return watched
        return None

    def _ping_a_grave(self, effects: Effects) -> None:
        gone = self._gone[self._rng.choice(list(self._gone))]
        if gone.status == "confirmed":
            self._nonce += 1
            ping = Ping(self._nonce, self.incarnation, self._vitals(), True, (gone,))
            effects.append(Send(gone.contact, ping))

    def _on_due(self, due: ProbeDue, now: float, effects: Effects) -> None:
        trial = self._trials.get(due.nonce)
        if trial is None or due.at < trial.due:
            return
        if self._is_late(due.at, now) and not trial.extended:
            # The ack may lie unread behind this timer: we were slow, so the peer gets its time once more.
            self.awareness.worse()
            trial.extended = True
            self._give_time(trial, self._settings.timeout_max_s, now, effects)
        elif trial.helpers is None:
            self._ask_helpers(trial, now, effects)
        else:
            self._fail(trial, now, effects)

    def _on_relay_due(self, due: RelayDue, now: float, effects: Effects) -> None:
        if due.nonce in self._relays:
            self._give_up_relay(due.nonce, effects)

    def _on_judge(self, due: JudgeDue, now: float, effects: Effects) -> None:
        watched = self._watched.get(due.peer)
        if watched is None or watched.suspicion is None:
            return
        if self._is_late(due.at, now):
            self._judge_later(watched, now + self._settings.period_s, now, effects)
        else:
            self._judge(watched, now, effects)

    def _on_gossip(self, tick: RumourTick, now: float, effects: Effects) -> None:
        audience = self._audience()
        listeners = self._rng.sample(audience, min(self._settings.gossip_fanout, len(audience)))
        for listener in listeners:
            rumours = self._rumours.take(RUMOURS_MAX, times=self._times_to_tell)
            if rumours:
                effects.append(Send(listener, Rumours(rumours)))
        self._gossiping = bool(self._rumours) and bool(listeners)
        if self._gossiping:
            self._gossip_later(now, effects)

    def _gossip_later(self, now: float, effects: Effects) -> None:
        at = now + self._settings.gossip_period_s
        effects.append(Later(at, RumourTick(at)))

    # Messages.

    def _on_ping(self, sender: Contact, ping: Ping, now: float, effects: Effects) -> None:
        if ping.rumours:
            self._listen(sender, ping.rumours, now, effects)
        if ping.suspected and not any(it.contact.peer == self._me.peer for it in ping.rumours):
            self._refute(self.incarnation, now, effects)
        self._greet(sender, ping.incarnation, ping.vitals, now, effects)
        rumours = self._rumours.take(RUMOURS_MAX, times=self._times_to_tell)
        if self._gone:
            gone = self._gone.get(sender.peer)
            if gone is not None:  # It must hear what is said of it, or it cannot refute.
                rumours = (gone, *rumours[: RUMOURS_MAX - 1])
        effects.append(Send(sender, Ack(ping.nonce, self.incarnation, self._vitals(), rumours)))

    def _on_ack(self, sender: Contact, ack: Ack, now: float, effects: Effects) -> None:
        if ack.rumours:
            self._listen(sender, ack.rumours, now, effects)
        trial = self._trials.get(ack.nonce)
        if trial is not None:
            watched = trial.watched
            if watched.contact.peer == sender.peer:
                self._measure(watched, now - trial.sent_at)
            elif trial.helpers is not None and sender.peer in trial.helpers:
                self._greet(watched.contact, ack.incarnation, ack.vitals, now, effects)
                effects += self.heard(sender.peer)
                return
        relay = self._relays.get(ack.nonce)
        if relay is not None and relay.target == sender.peer:
            del self._relays[ack.nonce]
            effects.append(Send(relay.asker, Ack(relay.asker_nonce, ack.incarnation, ack.vitals, ())))
        self._greet(sender, ack.incarnation, ack.vitals, now, effects)

    def _on_ping_request(self, sender: Contact, request: PingRequest, now: float, effects: Effects) -> None:
        effects += self.heard(sender.peer)
        target = request.target
        if target.peer == self._me.peer:
            effects.append(Send(sender, Ack(request.nonce, self.incarnation, self._vitals(), ())))
        elif len(self._relays) < RELAYS_MAX:
            watched = self._watched.get(target.peer)
            timeout_s = self._settings.timeout_max_s if watched is None else self._timeout_s(watched)
            self._nonce += 1
            self._relays[self._nonce] = Relay(sender, request.nonce, target.peer)
            rumours = self._rumours.take(RUMOURS_MAX, times=self._times_to_tell)
            ping = Ping(self._nonce, self.incarnation, self._vitals(), False, rumours)
            effects.append(Send(target, ping))
            effects.append(Later(now + timeout_s, RelayDue(now + timeout_s, self._nonce)))

    def _on_nack(self, sender: Contact, nack: Nack, now: float, effects: Effects) -> None:
        effects += self.heard(sender.peer)
        trial = self._trials.get(nack.nonce)
        if trial is not None and trial.helpers is not None and sender.peer in trial.helpers:
            trial.helpers.remove(sender.peer)
            trial.nacks += 1
            if not trial.helpers and trial.refused:
                self._fail(trial, now, effects)  # all have spoken

    def _on_rumours(self, sender: Contact, news: Rumours, now: float, effects: Effects) -> None:
        effects += self.heard(sender.peer)
        self._listen(sender, news.rumours, now, effects)

    # Probes.

    def _timeout_s(self, watched: Watched) -> float:
        settings = self._settings
        if watched.rtt_s is None:
            return settings.timeout_max_s
        usual_s = watched.rtt_s + 4.0 * watched.rtt_dev_s
        return min(settings.timeout_max_s, max(settings.timeout_min_s, usual_s))

    def _measure(self, watched: Watched, rtt_s: float) -> None:
        if watched.rtt_s is None:
            watched.rtt_s, watched.rtt_dev_s = rtt_s, rtt_s / 2.0
        else:
            error_s = rtt_s - watched.rtt_s
            watched.rtt_s += 0.125 * error_s
            watched.rtt_dev_s += 0.25 * (abs(error_s) - watched.rtt_dev_s)
        if self.on_rtt is not None:
            self.on_rtt(watched.contact.peer, rtt_s)

    def _probe(self, watched: Watched, now: float, effects: Effects, *, ping: bool = True) -> Trial:
        """Start a probe. Without `ping` its direct part is known to fail: the caller asks the helpers."""
        self._nonce += 1
        trial = Trial(self._nonce, watched, now)
        watched.trial = self._trials[self._nonce] = trial
        if ping:
            rumours = self._rumours.take(RUMOURS_MAX, times=self._times_to_tell)
            suspicion = watched.suspicion
            if suspicion is not None:  # it must know which incarnation we doubt
                accusation = Rumour("suspect", watched.contact, suspicion.incarnation, suspicion.witnesses)
                rumours = (accusation, *rumours[: RUMOURS_MAX - 1])
            ping_message = Ping(self._nonce, self.incarnation, self._vitals(), suspicion is not None, rumours)
            effects.append(Send(watched.contact, ping_message))
            self._give_time(trial, self._timeout_s(watched), now, effects)
        return trial

    def _give_time(self, trial: Trial, timeout_s: float, now: float, effects: Effects) -> None:
        trial.due = now + timeout_s * self.awareness.factor
        effects.append(Later(trial.due, ProbeDue(trial.due, trial.nonce)))

    def _ask_helpers(self, trial: Trial, now: float, effects: Effects) -> None:
        settings, target = self._settings, trial.watched.contact
        draw = self._rng.sample(list(self._watched), min(len(self._watched), settings.helpers + 3))
        helpers = [peer for peer in draw if peer != target.peer and peer not in self._suspects]
        trial.helpers = helpers[: settings.helpers]
        for peer in trial.helpers:
            effects.append(Send(self._watched[peer].contact, PingRequest(trial.nonce, target)))
        if not trial.helpers:
            self._fail(trial, now, effects)
        else:
            share = 0.5 if trial.refused else 1.0
            self._give_time(trial, settings.indirect_timeout_s * share, now, effects)

    def _end(self, trial: Trial) -> None:
        trial.watched.trial = None
        del self._trials[trial.nonce]

    def _fail(self, trial: Trial, now: float, effects: Effects) -> None:
        """Nobody reached it. Whose fault is that?"""
        assert trial.helpers is not None
        self._end(trial)
        if len(trial.helpers) > trial.nacks:  # fewer than half sent so much as a nack
            self.awareness.worse()
        credible = trial.refused or trial.nacks > 0 or len(self._watched) == 1
        watched = trial.watched
        suspicion = watched.suspicion or self._suspect(watched, now)
        before = suspicion.witnesses
        suspicion.on_own_failure(credible=credible)
        if not credible:
            self.awareness.worse()
        elif not watched.said:
            watched.said = True
            effects.append(Suspected(watched.contact, len(suspicion.witnesses)))
        self._after_witness(watched, before, now, effects)

    def _give_up_relay(self, nonce: int, effects: Effects) -> None:
        relay = self._relays.pop(nonce)
        effects.append(Send(relay.asker, Nack(relay.asker_nonce)))

    # Suspicion.

    def _wait_now(self) -> Wait:
        settings = self._settings
        return wait_for(
            len(self._watched) + 1,
            period_s=settings.period_s,
            min_periods=settings.suspicion_min_periods,
            max_factor=settings.suspicion_max_factor,
        )

    def _suspect(self, watched: Watched, now: float) -> Suspicion:
        suspicion = watched.suspicion = Suspicion(
            self._me.peer,
            incarnation=watched.incarnation,
            now=now,
            wait=self._wait,
            others=len(self._watched) - 1,
        )
        watched.judge_at = float("inf")
        self._suspects[watched.contact.peer] = watched
        return suspicion

    def _after_witness(
        self, watched: Watched, before: tuple[PeerId, ...], now: float, effects: Effects
    ) -> None:
        """Somebody may have joined the witnesses: spread that, and see whether the case is ripe."""
        suspicion = watched.suspicion
        assert suspicion is not None
        if suspicion.witnesses != before and len(before) < WITNESSES_ENOUGH:
            self._tell("suspect", watched.contact, suspicion.incarnation, suspicion.witnesses, now, effects)
        if suspicion.deadline < watched.judge_at:
            self._judge_later(watched, suspicion.deadline, now, effects)
        self._judge(watched, now, effects)

    def _judge_later(self, watched: Watched, at: float, now: float, effects: Effects) -> None:
        watched.judge_at = at
        if at > now:  # else the case is judged at once; a timer of the past would look like a late one
            effects.append(Later(at, JudgeDue(at, watched.contact.peer)))

    def _judge(self, watched: Watched, now: float, effects: Effects) -> None:
        suspicion = watched.suspicion
        assert suspicion is not None
        left = watched.left and watched.said
        if not left and (now < self._judges_from or not suspicion.is_confirmed(now)):
            return
        contact, witnesses = watched.contact, suspicion.witnesses
        status = "left" if left else "confirmed"
        self._bury(Rumour(status, contact, watched.incarnation, witnesses), now, effects)
        effects.append(Departed(contact) if left else Confirmed(contact, witnesses))

    def _bury(self, rumour: Rumour, now: float, effects: Effects) -> None:
        peer = rumour.contact.peer
        self._unwatch(peer)
        self._gone.pop(peer, None)
        while len(self._gone) >= GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self._gone[peer] = rumour
        self._tell(rumour.status, rumour.contact, rumour.incarnation, rumour.witnesses, now, effects)

    def _unwatch(self, peer: PeerId) -> None:
        watched = self._watched.pop(peer, None)
        if watched is not None:
            self._suspects.pop(peer, None)
            if watched.trial is not None:
                self._end(watched.trial)

    def _alive(self, watched: Watched, effects: Effects) -> None:
        """It has shown itself: end the probe and the case against it."""
        if watched.trial is not None:
            self._end(watched.trial)
            self.awareness.better()
        if watched.suspicion is not None:
            self._acquit(watched, effects)

    def _acquit(self, watched: Watched, effects: Effects) -> None:
        watched.suspicion = None
        watched.left = False
        self._suspects.pop(watched.contact.peer, None)
        self._rumours.drop_suspect(watched.contact.peer)
        if watched.said:
            watched.said = False
            effects.append(Trusted(watched.contact))

    def _reborn(self, watched: Watched, contact: Contact, effects: Effects) -> None:
        """The peer restarted: what we held against its former life is void."""
        watched.contact = contact
        watched.incarnation = 0
        self._alive(watched, effects)

    def _greet(
        self, sender: Contact, incarnation: int, vitals: Vitals, now: float, effects: Effects
    ) -> None:
        """A heartbeat of `sender`, from itself or through a helper."""
        watched = self._watched.get(sender.peer)
        if watched is not None:
            if sender is not watched.contact and sender.supersedes(watched.contact):
                self._reborn(watched, sender, effects)
            watched.vitals = vitals
            if incarnation > watched.incarnation:
                watched.incarnation = incarnation
            if watched.trial is not None or watched.suspicion is not None:
                self._alive(watched, effects)
            return
        if self._gone:
            gone = self._gone.get(sender.peer)
            if gone is not None and _life(sender, incarnation) > _life(gone.contact, gone.incarnation):
                self._raise_from_grave(sender, effects)
        if sender.peer not in self._guests and len(self._guests) >= GUESTS_MAX:
            del self._guests[next(iter(self._guests))]
        self._guests[sender.peer] = vitals

    def _raise_from_grave(self, contact: Contact, effects: Effects) -> None:
        del self._gone[contact.peer]
        effects.append(Trusted(contact))

    # Rumours.

    def _tell(
        self,
        status: str,
        contact: Contact,
        incarnation: int,
        witnesses: tuple[PeerId, ...],
        now: float,
        effects: Effects,
    ) -> None:
        self._rumours.put(Rumour(status, contact, incarnation, witnesses))
        if not self._gossiping:
            self._gossiping = True
            self._gossip_later(now, effects)

    def _listen(self, sender: Contact, rumours: Iterable[Rumour], now: float, effects: Effects) -> None:
        for rumour in rumours:
            peer = rumour.contact.peer
            if peer == self._me.peer:
                if rumour.status != "alive" and rumour.contact.boot_ms == self._me.boot_ms:
                    self._refute(rumour.incarnation, now, effects)
            elif rumour.status == "alive":
                self._hear_alive(rumour, now, effects)
            elif peer in self._watched:
                self._hear_bad(sender, self._watched[peer], rumour, now, effects)
            elif rumour.status == "left" and sender.peer == peer:
                self._guests.pop(peer, None)
                effects.append(Departed(rumour.contact))

    def _refute(self, incarnation: int, now: float, effects: Effects) -> None:
        """Somebody doubts us in this incarnation. If that is our present one, live a higher one."""
        if incarnation < self.incarnation or self.incarnation == INCARNATION_MAX:
            return
        self.awareness.worse()
        self._rise(incarnation, now, effects)

    def _rise(self, above: int, now: float, effects: Effects) -> None:
        self.incarnation = min(above + 1, INCARNATION_MAX)
        self._tell("alive", self._me, self.incarnation, (), now, effects)

    def _hear_alive(self, rumour: Rumour, now: float, effects: Effects) -> None:
        contact, incarnation = rumour.contact, rumour.incarnation
        watched = self._watched.get(contact.peer)
        if watched is not None:
            if _life(contact, incarnation) <= _life(watched.contact, watched.incarnation):
                return
            if contact.supersedes(watched.contact):
                self._reborn(watched, contact, effects)
            watched.incarnation = incarnation
            if watched.suspicion is not None:
                self._acquit(watched, effects)
        else:
            gone = self._gone.get(contact.peer)
            if gone is None or _life(contact, incarnation) <= _life(gone.contact, gone.incarnation):
                return
            self._raise_from_grave(contact, effects)
        self._tell("alive", contact, incarnation, (), now, effects)

    def _hear_bad(
        self, sender: Contact, watched: Watched, rumour: Rumour, now: float, effects: Effects
    ) -> None:
        """Somebody says that a peer we watch is silent, dead or gone. Only its own farewell is final."""
        if _life(rumour.contact, rumour.incarnation) < _life(watched.contact, watched.incarnation):
            if watched.contact.supersedes(rumour.contact):  # who still doubts its former life should know
                self._tell("alive", watched.contact, watched.incarnation, (), now, effects)
            return
        if rumour.contact.boot_ms > watched.contact.boot_ms:
            self._reborn(watched, rumour.contact, effects)
        watched.incarnation = rumour.incarnation
        if rumour.status == "left" and sender.peer == rumour.contact.peer:
            self._bury(rumour, now, effects)
            effects.append(Departed(watched.contact))
            return
        suspicion = watched.suspicion
        if suspicion is None or suspicion.incarnation < rumour.incarnation:
            suspicion = self._suspect(watched, now)  # what was seen of a lower incarnation has been refuted
        before = suspicion.witnesses
        suspicion.hear(rumour.witnesses)
        if rumour.status != "suspect":
            suspicion.hasten()
        watched.left = watched.left or rumour.status == "left"
        if watched.trial is None and not suspicion.own_failures:
            self._probe(watched, now, effects)
        self._after_witness(watched, before, now, effects)

    # Doubt in ourselves.

    def _is_late(self, due: float, now: float) -> bool:
        return now - max(due, self._awake_since) > self._settings.late_s

    def _overslept(self, due: float, now: float, effects: Effects) -> bool:
        """Did we not run since `due`, for a whole suspicion time? Then start over."""
        slept_s = now - max(due, self._awake_since)
        if slept_s < self._wait.min_s:
            return False
        self._awake_since = now
        self._judges_from = now + self._wait.min_s
        self.awareness.worse()
        for trial in list(self._trials.values()):
            self._end(trial)
        self._relays.clear()
        for suspect in self._suspects.values():
            self._suspect(suspect, now)
        effects.append(Slept(slept_s))
        self._rise(self.incarnation, now, effects)
        return True


# Tables of the class, not of each of 10,000 probers in a simulation.
_ON_EVENT: dict[type, Callable[[Prober, Any, float, Effects], None]] = {
    ProbeTick: Prober._on_tick,
    ProbeDue: Prober._on_due,
    RelayDue: Prober._on_relay_due,
    RumourTick: Prober._on_gossip,
    JudgeDue: Prober._on_judge,
}
_ON_MESSAGE: dict[type, Callable[[Prober, Contact, Any, float, Effects], None]] = {
    Ping: Prober._on_ping,
    Ack: Prober._on_ack,
    PingRequest: Prober._on_ping_request,
    Nack: Prober._on_nack,
    Rumours: Prober._on_rumours,
}
