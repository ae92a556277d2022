"""One member of an app's register: it keeps the charter on disk, looks after the app, and proposes changes.

What it is told to keep (the register's config, the record as of then, the sealed bundle) survives a restart; the
record itself is always read from the register. A change is one `Proposal` at a time; if no majority answers, the keeper
is told so and tries again later, with the same mark if the first try may yet come true.

Also here: replacing a member of the register that is gone for long. The config is sealed with the name of the next one
(recovery/register/membership.py), and the newcomer is told to keep the charter like the others.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final, get_args

import msgpack

from dataflow.deploying.charter import Charter, unpack_charter
from dataflow.deploying.requests import Agreed, Declined
from dataflow.generations.effects import Ask, Do, Effect, Later, Noted, Reply
from dataflow.generations.keeper import Ask as KeeperAsk
from dataflow.generations.keeper import Keeper, KeeperSettings, Propose, Stage
from dataflow.generations.keeper import Later as KeeperLater
from dataflow.generations.keeper import Noted as KeeperNoted
from dataflow.generations.life import life_id
from dataflow.generations.messages import Acknowledge, Keep, Nudge, Watch, unpack_notes
from dataflow.generations.ports import Ports
from dataflow.generations.record import Phase, Record, unpack_record
from overlay.contact import Contact
from overlay.frames import BODY_BYTES_MAX, Buffer
from overlay.ids import PeerId, short
from overlay.wire import WireError
from recovery.register.config import Config, WireConfig
from recovery.register.membership import Move
from recovery.register.proposer import Again, Decided, NoQuorum, Proposal, Refused, Standing, Unsure, Wait

PREFIX: Final = "charter-"
DOES_NOT_LEAD: Final = "looks after that app, but does not lead"
PROBE_S: Final = 2.5
SILENT_S: Final = 10.0
"""Silence after which a member of the register is replaced: longer than a restart, shorter than two in a row."""
VOTE_S: Final = 2.0
"""What a member may take to vote: a write to its disk, and a busy device."""
_CONFIG: Final = get_args(WireConfig)[1]


class Caretaker:
    def __init__(
        self, ports: Ports, charter: Charter, config: Config, rng: Random, settings: KeeperSettings | None = None
    ) -> None:
        self.app = charter.record.app
        self.life = charter.record.life
        self._ports = ports
        self._charter = charter
        self._config = config
        self._rng = rng
        self._standing: Standing | None = None
        self._again: Again | None = None
        self._proposal: Proposal | None = None
        self._waits_until: float | None = None
        self._own: Callable[[Any, float], list[Effect]] | None = None
        """If the proposal is not the keeper's but about the register itself: what follows from its outcome."""
        self._queued: Propose | None = None
        self._heard: dict[PeerId, float] = {}
        self._probe_at = 0.0
        self.keeper = Keeper(
            ports.me.peer, charter.record, charter.sealed, number=ports.errands.number, settings=settings
        )

    @property
    def charter(self) -> Charter:
        return self._charter

    @property
    def record(self) -> Record:
        return self.keeper.record

    @property
    def is_over(self) -> bool:
        return self.keeper.stage is Stage.OVER

    # -- what is on disk --

    @property
    def file(self) -> str:
        return PREFIX + life_id(self.app, self.life)

    def pack(self) -> bytes:
        return pack_keep(self._config, self._charter)

    def kept(self, asker: Contact, it: Keep, now: float) -> list[Effect]:
        """We were told to keep it: on disk first, then look after it."""

        def work() -> None:
            self._ports.disk.put(self.file, self.pack())

        def then(result: Any, at: float) -> list[Effect]:
            if isinstance(result, BaseException):
                return [Reply(asker, Declined(it.ask, f"its disk did not take the charter: {result}"[:1000]))]
            return [Reply(asker, Agreed(it.ask)), *self.begin(at)]

        return [Do(("charter", self.app), work, then)]

    def begin(self, now: float) -> list[Effect]:
        return self._carry(self.keeper.begin(now), now)

    # -- what happens --

    def woken(self, now: float) -> list[Effect]:
        out: list[Effect] = []
        if self._waits_until is not None and now >= self._waits_until and self._proposal is not None:
            self._waits_until = None
            out += self._propose_on(self._proposal, self._proposal.waited(), now)
        return [*out, *self._carry(self.keeper.woken(now), now), *self._probe(now)]

    def watched(self, asker: Contact, it: Watch) -> list[Effect]:
        """Yes only if we lead. To be there is not enough: two with other lists of members would wait for each other."""
        if self.keeper.is_leading or self.is_over:
            return [Reply(asker, Agreed(it.ask))]
        return [Reply(asker, Declined(it.ask, DOES_NOT_LEAD))]

    def acknowledged(self, asker: Contact, it: Acknowledge, body: Buffer, now: float) -> list[Effect]:
        try:
            notes = unpack_notes(body)
        except WireError as error:
            return [Reply(asker, Declined(it.ask, str(error)))]
        problem, told = self.keeper.acknowledged(asker.peer, it.generation, it.epoch, notes, now)
        reply: Any = Agreed(it.ask) if problem is None else Declined(it.ask, problem)
        return [Reply(asker, reply), *self._carry(told, now)]

    def nudged(self, asker: Contact, it: Nudge, now: float) -> list[Effect]:
        return [Reply(asker, Agreed(it.ask)), *self._carry(self.keeper.nudged(it.generation, now), now)]

    def tell(self, happened: Callable[[Keeper], list[Any]], now: float) -> list[Effect]:
        """Tell the keeper of something: a death, an offer, a wish."""
        return self._carry(happened(self.keeper), now)

    # -- carrying out what the keeper wants --

    def _carry(self, effects: list[Any], now: float) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, KeeperAsk):
                out.append(self._put(effect))
            elif isinstance(effect, Propose):
                out += self._propose(effect, now)
            elif isinstance(effect, KeeperLater):
                out.append(Later(effect.at))
            else:
                assert isinstance(effect, KeeperNoted)
                out.append(Noted(self.app, effect.what, effect.detail))
        return out

    def _put(self, it: KeeperAsk) -> Effect:
        ask = Ask(it.to.peer, it.request, it.body, it.within_s, it.to)
        number = it.request.ask
        return self._ports.errands.put(
            ask,
            lambda reply, body, now: self._carry(self.keeper.answered(number, reply, now), now),
            lambda reason, now: self._carry(self.keeper.unanswered(number, reason, now), now),
        )

    def _propose(self, it: Propose, now: float) -> list[Effect]:
        if self._proposal is not None:
            assert self._own is not None, "the keeper has at most one proposal"
            self._queued = it
            return []

        def change(content: bytes | None) -> bytes | None:
            if content is None:
                return None
            after = it.change(unpack_record(content))
            return None if after is None else after.pack()

        standing, self._standing = self._standing, None
        self._proposal = proposal = Proposal(
            life_id(self.app, self.life),
            self._config,
            self._ports.me.peer,
            change,
            next_ask=self._ports.errands.number,
            rng=self._rng,
            standing=standing,
        )
        return self._propose_on(proposal, proposal.begin(), now)

    def _propose_on(self, proposal: Proposal, steps: Any, now: float) -> list[Effect]:
        def done(step: Any, at: float) -> list[Effect]:
            return self._on_step(proposal, step, at)

        return self._ports.errands.carry(
            _Voting(proposal),
            steps,
            done,
            now=now,
            within_s=VOTE_S,
            contact_of=self._contact_of,
            has_bodies=True,
        )

    def _on_step(self, proposal: Proposal, step: Any, now: float) -> list[Effect]:
        if proposal is not self._proposal:
            return []
        if isinstance(step, Wait):
            self._waits_until = now + step.seconds
            return [Later(self._waits_until)]
        self._proposal = None
        own, self._own = self._own, None
        if own is not None:
            out = own(step, now)
            if self._proposal is None and self._queued is not None:
                queued, self._queued = self._queued, None
                out += self._propose(queued, now)
            return out
        if isinstance(step, Decided | Refused):
            self._config, self._standing = step.config, step.standing
            if step.content is None:
                return self._carry(self.keeper.undecided("the register is empty: the launch was cut short", now), now)
            record = unpack_record(step.content)
            told = self.keeper.decided if isinstance(step, Decided) else self.keeper.refused
            return self._carry(told(record, now), now)
        if isinstance(step, NoQuorum):
            self._config = step.config
            reason = f"NO_QUORUM: {step.found} of {step.needed} needed register members answer"
            return self._carry(self.keeper.undecided(reason, now), now)
        assert isinstance(step, Unsure), step
        return self._carry(self.keeper.undecided("too many changes of others came between", now), now)

    # -- who votes --

    def _probe(self, now: float) -> list[Effect]:
        """Whoever leads asks the other members now and then, and replaces one that stays silent."""
        if not self.keeper.is_leading or self.is_over:
            self._heard.clear()
            return []
        if now < self._probe_at:
            return []
        self._probe_at = now + PROBE_S
        others = [peer for peer in self._config.peers if peer != self._ports.me.peer]
        self._heard = {peer: self._heard.get(peer, now) for peer in others}
        out: list[Effect] = [Later(self._probe_at)]
        for peer in others:
            watch = Watch(self._ports.errands.number(), self.app, self.life)
            ask = Ask(peer, watch, within_s=PROBE_S, contact=self._contact_of(peer))
            out.append(self._ports.errands.put(ask, partial(self._on_heard, peer), lambda *_: []))
        silent = [peer for peer in others if now - self._heard[peer] >= SILENT_S]
        return [*out, *(self._replace(silent[0], now) if silent else ())]

    def _on_heard(self, peer: PeerId, reply: Any, body: Buffer, now: float) -> list[Effect]:
        self._heard[peer] = now
        # It may vote and not know what for: nobody told it, or it forgot.
        is_unaware = isinstance(reply, Declined) and reply.reason != DOES_NOT_LEAD
        return [self._tell_to_keep(peer)] if is_unaware and self.keeper.is_leading and not self.is_over else []

    def _replace(self, lost: PeerId, now: float) -> list[Effect]:
        """Seal the config with the name of the next, in which a newcomer votes instead of the one that is silent."""
        newcomer = self._newcomer(lost)
        if self._proposal is not None or newcomer is None:
            return []
        self._heard[lost] = now  # if this fails, try again after as long a silence
        peers = [peer for peer in self._config.peers if peer != lost]
        self._standing = None
        self._proposal = move = Move(
            life_id(self.app, self.life),
            self._config,
            self._ports.me.peer,
            [*peers, newcomer.peer],
            next_ask=self._ports.errands.number,
            rng=self._rng,
        )
        self._own = partial(self._on_moved, lost, newcomer)
        return self._propose_on(move, move.begin(), now)

    def _newcomer(self, lost: PeerId) -> Contact | None:
        """In a zone of its own if there is one, like the members that the launch chose."""
        stay = [self._contact_of(peer) for peer in self._config.peers if peer != lost]
        zones = {it.zone for it in stay if it is not None}
        able = [it for it in self._ports.candidates() if it.peer not in self._config.peers]
        for it in sorted(able, key=lambda it: (it.zone in zones, it.peer)):
            contact = self._ports.contact_of(it.peer)
            if contact is not None:
                return contact
        return None

    def _on_moved(self, lost: PeerId, newcomer: Contact, step: Any, now: float) -> list[Effect]:
        if isinstance(step, NoQuorum):
            self._config = step.config
        if not isinstance(step, Decided | Refused):
            return []
        self._config, self._standing = step.config, step.standing
        if newcomer.peer not in self._config.peers:  # somebody else was quicker
            return []
        told = Noted(self.app, "sealed", f"peer {short(newcomer.peer)} votes instead of {short(lost)}")

        def change(stands: Record) -> Record | None:
            return stands.with_member(newcomer, instead_of=lost) if stands.phase is Phase.RUNNING else None

        self._own = partial(self._on_members, newcomer)
        return [told, *self._propose(Propose(change), now)]

    def _on_members(self, newcomer: Contact, step: Any, now: float) -> list[Effect]:
        """The record names the newcomer: it is told to keep what the others keep."""
        if not isinstance(step, Decided | Refused) or step.content is None:
            return []
        self._config, self._standing = step.config, step.standing
        self.keeper.adopt(unpack_record(step.content))
        return [self._tell_to_keep(newcomer.peer)]

    def _tell_to_keep(self, peer: PeerId) -> Effect:
        body = pack_keep(self._config, Charter(self.record, self._charter.sealed))
        keep = Keep(self._ports.errands.number(), self.app, self.life)
        return self._ports.errands.put(
            Ask(peer, keep, body, contact=self._contact_of(peer)), lambda *_: [], lambda *_: []
        )

    def _contact_of(self, peer: PeerId) -> Contact | None:
        return self.keeper.record.contact_of(peer) or self._ports.contact_of(peer)


class _Voting:
    """A proposal as errands know machines: it does not care why nobody answered."""

    def __init__(self, proposal: Proposal) -> None:
        self._proposal = proposal

    def answered(self, ask: int, reply: Any, body: Buffer) -> Any:
        return self._proposal.answered(ask, reply, body)

    def unanswered(self, ask: int, reason: str) -> Any:
        return self._proposal.unanswered(ask)


def pack_keep(config: Config, charter: Charter) -> bytes:
    raw: bytes = msgpack.packb([_CONFIG.pack(config), charter.pack()])
    return raw


def unpack_keep(raw: Buffer) -> tuple[Config, Charter]:
    try:
        config, charter = msgpack.unpackb(raw, max_map_len=0, max_ext_len=0, max_bin_len=BODY_BYTES_MAX)
        return _CONFIG.unpack(config), unpack_charter(charter)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError("bad-keep", str(error)[:80] or type(error).__name__) from None


def read_keep(raw: bytes | None) -> tuple[Config, Charter] | None:
    """From disk: None if it is not there or damaged; the other members go on without us."""
    if raw is None:
        return None
    try:
        return unpack_keep(raw)
    except WireError:
        return None

