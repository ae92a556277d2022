"""One peer, running: identity, sockets, clocks and files around the pure overlay nodes.

All decisions are the nodes'. The runtime hands them messages, timers and hints, and carries out what they
ask:

    Send    -> connections          Later -> timers
    Answer  -> whoever waits        the rest are observations -> counters, the cache of contacts, observers

Finding the way in is the one thing that it does by itself (`_seek_company`): it greets the addresses of
`--join` and the cached contacts until somebody answers, and again whenever nobody is left. If all were
started at once and nobody is in the ring yet, the device with the lowest id among those who see each other
begins it.

    runtime = Runtime(PeerConfig(data_dir=..., join=("10.0.0.7:4000",)))
    address = await nursery.start(runtime.run)
    await runtime.joined.wait()
    result = await runtime.route(key_of("alerts"))
    runtime.stop()                                  # leaves the ring; `run` returns
"""

import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Final, cast

import trio

from overlay.admission import Admission, Limits, Visitor
from overlay.backoff import Backoff
from overlay.certificates import Credential, CredentialError
from overlay.clock_trio import Clock
from overlay.connections_trio import Connections, Timing
from overlay.contact import Contact
from overlay.digest import ZoneDigest
from overlay.directory import Listing, Stored
from overlay.effects import Answer, Effects, Joined, Later, LeavesChanged, Refused, Send
from overlay.frames import Buffer, Frame
from overlay.gossip import DenylistChanged
from overlay.ids import Key, PeerId
from overlay.links import Address, Greeting, LinkDown, LinkMember, LinkUp, UnreachableError, Upcalls
from overlay.node import OverlayNode
from overlay.probe_settings import ProbeSettings
from overlay.records import Record
from overlay.settings import Settings
from overlay.sockets_trio import is_loopback, open_listener
from peer.addresses import parse_address, parse_advertised
from peer.complaint import Complaint
from peer.contacts import ContactCache
from peer.identity import Identity, insecure_identity, load_identity
from peer.measure import measure_vitals
from peer.timers import Timers

Observer = Callable[[PeerId, Any], None]
DataHandler = Callable[[PeerId, Contact, Frame], None]
VisitHandler = Callable[[Any, Visitor], Awaitable[None]]

VITALS_S: Final = 5.0
"""Pause between two looks at load and memory. The load average itself moves every five seconds."""
CONTACTS_SAVE_S: Final = 30.0
"""Pause between two writes of the contacts, if they changed. Flash memory wears out."""
LEAVE_S_MAX: Final = 3.0
"""How long a leave may take. Those who did not hear it will find out by themselves."""
SEEDS_ENOUGH: Final = 3
"""Greeted peers to join through: one works, two more are spare."""
GREETINGS_AT_ONCE: Final = 8
"""Addresses dialled at once when we seek company."""
LONELY_S: Final = 1.0
"""How long we are alone before we look for others: those who just left may still be saying goodbye."""
JOIN_WAIT_S: Final = 6.0
"""What a join through greeted peers may take before we look around again: a little over one attempt."""
CROWD_WAIT_S: Final = 2.0
"""How long we wait for somebody's ring before we begin one, if nobody is in any."""
_WILDCARDS: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """What a person decides about one peer."""

    data_dir: Path
    listen: str = "127.0.0.1:0"
    join: tuple[str, ...] = ()
    zone: str = ""
    insecure: bool = False
    virtual_peers: int = 1
    """Ids on the ring with `insecure`; otherwise the certificate says how many."""
    advertise: str = ""
    """The address that others dial, `host` or `host:port`, if it is not the one we listen on."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """What is behind the sources that this device offers to apps: a connector's spec by name."""
    sinks: Mapping[str, str] = field(default_factory=dict)
    """Where rows of sinks go that run here, beside being kept for readers."""
    slots: int | None = None
    """Instances that this device takes; None is what its cores are good for."""
    memory_mib: int | None = None
    """Memory for apps' worker processes; None is most of what the device has."""
    metrics: str = ""
    """Where to serve metrics over HTTP; nowhere if empty."""
    seed: int | None = None
    """Fixes every random choice of the nodes: for tests."""
    settings: Settings | None = None
    probing: ProbeSettings | None = None
    limits: Limits | None = None
    timing: Timing | None = None


@dataclass(frozen=True, slots=True)
class Offered:
    """What a peer has for apps, as it tells others."""

    slots: int = 0
    slots_used: int = 0
    memory_free_mib: int = 0
    is_open_scheduler: bool = False


class Runtime:
    """`await Runtime(config).run()`, or `nursery.start(runtime.run)` to go on once it listens."""

    def __init__(
        self, config: PeerConfig, *, on_event: Observer | None = None, on_data: DataHandler | None = None
    ) -> None:
        self.config = config
        self.counters: Counter[str] = Counter()
        self.nodes: tuple[OverlayNode, ...] = ()
        self.listening_address = ""
        self.joined = trio.Event()
        """Set once every node of ours is in the ring."""
        self._observers: list[Observer] = [on_event] if on_event else []
        self._on_data = on_data
        self._on_visit: VisitHandler | None = None
        self._measure_room: Callable[[], Offered] = Offered
        self.before_leaving: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        """What is to be done while we are still of the ring; it bounds its own time."""
        self._stopping = trio.Event()
        self._waiting: dict[tuple[PeerId, int], tuple[trio.Event, list[Any]]] = {}
        self._local: deque[tuple[OverlayNode, Contact, Any]] = deque()
        self._is_draining = False
        self._member_ids: set[PeerId] = set()
        self._news = trio.Event()
        self._by_id: dict[PeerId, OverlayNode] = {}
        self._carry: dict[type, Callable[[OverlayNode, Any], None]] = {
            Send: self._carry_send,
            Later: self._carry_later,
            Answer: self._carry_answer,
        }
        self._react: dict[type, Callable[[OverlayNode, Any], None]] = {
            Joined: self._on_joined,
            LeavesChanged: self._on_leaves_changed,
            Refused: self._on_refused,
            DenylistChanged: self._on_denylist_changed,
        }

    # What the rest of the process may ask.

    def observe(self, observer: Observer) -> None:
        """Also tell `observer(me, effect)` of whatever the nodes and the connections observe."""
        self._observers.append(observer)

    def on_data(self, handler: DataHandler) -> None:
        """Hand every body that comes in to `handler(to, sender, frame)`, which must not block."""
        self._on_data = handler

    def on_visit(self, handler: VisitHandler) -> None:
        """Let `handler(stream, visitor)` answer whoever comes with one question. Before `run`."""
        self._on_visit = handler

    @property
    def connection_count(self) -> int:
        """Open connections to other devices."""
        return self._connections.count if self.nodes else 0

    def read_certificate(self, der: bytes, now: float) -> Credential:
        """Who holds this certificate, by our CA and our denylist; `CredentialError` if nobody does."""
        return self._identity.read(der, now)

    def offer_room(self, measure: Callable[[], Offered]) -> None:
        """Tell others what room for apps we have, whenever we tell how we are."""
        self._measure_room = measure

    def report(self) -> None:
        """What we tell others of ourselves from the next message on. Call it when room or role have changed."""
        room = self._measure_room()
        vitals = replace(
            measure_vitals(), slots=room.slots, slots_used=room.slots_used, memory_free_mib=room.memory_free_mib
        )
        for node in self.nodes:
            node.vitals = vitals
        self.nodes[0].gossip.report(slots=room.slots, slots_used=room.slots_used, is_scheduler=room.is_open_scheduler)

    def zone_digest(self) -> ZoneDigest:
        """What gossip knows of our zone, ourselves included."""
        return self.nodes[0].gossip.our_zone(self.now())

    def count_peers(self) -> float:
        """How many peers the ring has, as far as gossip has told us."""
        return max(1.0, sum(it.peers for it in self.nodes[0].gossip.totals(self.now()).values()))

    async def contact_of(self, peer: PeerId) -> Contact | None:
        """Where a peer lives: from memory if we know it, else by asking around; None if nobody knows."""
        node = self.nodes[0]
        if peer == node.me.peer:
            return node.me
        known = next((it for it in node.view.contacts() if it.peer == peer), None)
        return known or next((it for it in await self.find(peer, width=1) if it.peer == peer), None)

    def stop(self) -> None:
        """Leave the ring gracefully, then let `run` return. May be called twice, and from a signal task."""
        self._stopping.set()

    async def route(self, key: Key, payload: bytes = b"", *, kind: str = "probe") -> Any:
        """Send `payload` to the owner of `key`; the result tells the recorded hops."""
        node = self.nodes[0]
        return await self._answer(node, *node.route(key, kind, payload, self.now()))

    async def find(self, key: Key, *, width: int = 24) -> tuple[Contact, ...]:
        """The peers nearest to `key`."""
        node = self.nodes[0]
        return tuple(await self._answer(node, *node.find(key, self.now(), width=width)))

    async def send_data(self, to: Contact, control: bytes, body: Sequence[Buffer]) -> None:
        """Send a body, whose buffers must not change any more; `UnreachableError` if there is no way."""
        await self._connections.send_data(self.nodes[0].me.peer, to, control, body)

    async def publish(self, kind: str, name: str, value: bytes) -> Stored:
        """Offer `value` in the directory, and go on offering it until `withdraw`."""
        node = self.nodes[0]
        return cast(Stored, await self._answer(node, *node.publish(kind, name, value, self.now())))

    async def withdraw(self, kind: str, name: str) -> Stored:
        """Offer it no longer."""
        node = self.nodes[0]
        return cast(Stored, await self._answer(node, *node.withdraw(kind, name, self.now())))

    async def get(self, kind: str, name: str) -> Listing:
        """Who offers what under this name?"""
        node = self.nodes[0]
        return cast(Listing, await self._answer(node, *node.get(kind, name, self.now())))

    def deny(self, raw: bytes) -> bool:
        """Obey and spread a signed denylist. True if it was news; `DenylistError` if our CA did not sign it."""
        node = self.nodes[0]
        effects = node.gossip.deny(self._identity.read_denylist(raw))
        self._carry_out(node, effects)
        return bool(effects)

    def now(self) -> float:
        return self._clock.now()

    # The life of the process.

    async def run(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until `stop`; `started` gives the address that we listen on."""
        host, port = self._listen_address()
        self._identity = self._load_identity()
        self._clock = Clock()
        self._timers = Timers(self._clock)
        folder = self._identity.folder
        self._cache = ContactCache(folder / "contacts.json")
        with open_listener(host, port) as listener:
            self._compose(listener.getsockname()[1])
            async with trio.open_nursery() as nursery:
                await nursery.start(self._connections.run, listener)
                nursery.start_soon(self._timers.run)
                nursery.start_soon(self._look_after)
                nursery.start_soon(self._seek_company)
                task_status.started(self.listening_address)
                await self._stopping.wait()
                await self.before_leaving()
                await self._leave()
                nursery.cancel_scope.cancel()

    def _listen_address(self) -> Address:
        try:
            host, port = parse_address(self.config.listen)
            advertised, _ = self._advertised(port)
            for each in self.config.join:
                parse_address(each)
        except ValueError as error:
            raise Complaint(f"{error}.", "Write host:port.") from None
        if self.config.insecure and not is_loopback(host):
            raise Complaint(
                f"--insecure is for this machine alone, and {host} can be reached from others.",
                "Listen on 127.0.0.1, or make a cluster with `peer init` and `peer enroll`.",
            )
        if advertised in _WILDCARDS:
            raise Complaint(f"Nobody can dial {advertised}.", "Say with --advertise which address others shall use.")
        return host, port

    def _load_identity(self) -> Identity:
        now, data = time.time(), self.config.data_dir
        if self.config.insecure:
            return insecure_identity(data, virtual_peers=self.config.virtual_peers, now=now)
        return load_identity(data, now=now)

    def _compose(self, bound_port: int) -> None:
        """Make the nodes and the connections, now that our port is known."""
        host, port = self._advertised(bound_port)
        identity = self._identity
        contacts = tuple(
            Contact(peer, host, port, zone=self.config.zone, boot_ms=identity.boot_ms) for peer in identity.peers
        )
        self.listening_address = contacts[0].address
        rng = self._rng = SystemRandom() if self.config.seed is None else Random(self.config.seed)
        self.nodes = tuple(
            OverlayNode(
                contact,
                rng=Random(rng.getrandbits(64)),
                settings=self.config.settings,
                probing=self.config.probing,
                trust=identity.trust(),
            )
            for contact in contacts
        )
        self._by_id = {node.me.peer: node for node in self.nodes}
        self._connections = Connections(
            admission=Admission(
                cluster=identity.cluster,
                contacts=contacts,
                read=identity.read if identity.tls else None,
                is_member=self._is_member,
                limits=self.config.limits,
            ),
            upcalls=Upcalls(
                received=self._received,
                received_data=self._received_data,
                link_lost=self._link_lost,
                observed=self._link_observed,
                visited=self._on_visit,
            ),
            tls=identity.tls,
            clock=self._clock,
            rng=Random(rng.getrandbits(64)),
            counters=self.counters,
            timing=self.config.timing,
        )

    def _advertised(self, bound_port: int) -> Address:
        listen_host, _ = parse_address(self.config.listen)
        if not self.config.advertise:
            return listen_host, bound_port
        return parse_advertised(self.config.advertise, port=bound_port)

    async def _leave(self) -> None:
        with trio.move_on_after(LEAVE_S_MAX):
            for node in self.nodes:
                self._carry_out(node, node.leave(self.now()))
            self._cache.save()
            await self._connections.say_goodbye()

    async def _look_after(self) -> None:
        """The slow rounds: our own vitals, and the contacts on disk."""
        saved_at = self.now()
        while True:
            self.report()
            if self.now() - saved_at >= CONTACTS_SAVE_S:
                saved_at = self.now()
                self._cache.save()
            await trio.sleep(VITALS_S)

    # Finding the way in.

    async def _seek_company(self) -> None:
        """Be in the ring: join those who are, and look again whenever nobody is left."""
        if not self._known_addresses():
            self._join(())
        patience = Backoff(min_s=0.5, max_s=15.0)
        while True:
            self._news = trio.Event()
            if self._is_at_home():
                patience.on_success()
                await self._news.wait()
                continue
            if was_member := self._is_member():
                await self._be_at_home(LONELY_S)
                if self._is_at_home():
                    continue  # they came to us: to enter again would cost a stable ring its first peer for seconds
            greetings = await self._greet_known()
            seeds = [contact for each in greetings if each.is_member for contact in each.contacts]
            if seeds:
                self._join(seeds)
                await self._be_at_home(JOIN_WAIT_S)
                if was_member and not self._is_member():
                    self._join(())  # a ring of one, as before
            elif not was_member and self._may_begin(greetings) and not await self._hears_news(CROWD_WAIT_S):
                self._join(())
            patience.on_failure(self.now(), self._rng)
            await self._hears_news(patience.not_before - self.now())

    async def _be_at_home(self, most_s: float) -> None:
        with trio.move_on_after(most_s):
            while not self._is_at_home():
                self._news = trio.Event()
                await self._news.wait()

    async def _hears_news(self, most_s: float) -> bool:
        """Wait for a ring that we may join. True if there is one."""
        with trio.move_on_after(most_s):
            await self._news.wait()
        return self._news.is_set()

    def _is_member(self) -> bool:
        return self.nodes[0].is_member

    def _is_at_home(self) -> bool:
        """Are we in a ring, together with others?"""
        others = (leaf for node in self.nodes for leaf in node.leaves if leaf.peer not in self._by_id)
        return self._is_member() and next(others, None) is not None

    def _may_begin(self, greetings: Sequence[Greeting]) -> bool:
        """Nobody is in a ring. Shall we begin one? Not if told whom to join, nor if a lower id is there."""
        if not greetings:
            return not self.config.join
        return min(self._by_id) < min(contact.peer for each in greetings for contact in each.contacts)

    def _known_addresses(self) -> list[Address]:
        """Where to look, the most promising first: those named, then the newest we knew."""
        named = [parse_address(each) for each in self.config.join]
        kept = [(contact.host, contact.port) for contact in self._cache.newest_first()]
        mine = (self.nodes[0].me.host, self.nodes[0].me.port)
        return [address for address in dict.fromkeys(named + kept) if address != mine]

    async def _greet_known(self) -> list[Greeting]:
        """Those who answer, until there are enough of them in a ring."""
        found: list[Greeting] = []
        waiting = deque(self._known_addresses())

        async def greet_next() -> None:
            while waiting:
                try:
                    found.append(await self._connections.greet(waiting.popleft()))
                except UnreachableError:
                    continue
                if sum(each.is_member for each in found) >= SEEDS_ENOUGH:
                    nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(min(GREETINGS_AT_ONCE, len(waiting))):
                nursery.start_soon(greet_next)
        return found

    def _join(self, seeds: Sequence[Contact]) -> None:
        """Our first node goes in; the others follow through it (`_on_joined`)."""
        first = self.nodes[0]
        was_member = self._is_member()
        self._carry_out(first, first.join(seeds, self.now()))
        if was_member and not self._is_member():
            self._connections.tell_membership(False)

    # Between the nodes and the world.

    def _received(self, to: PeerId, sender: Contact, message: Any) -> None:
        node = self._by_id.get(to)
        if node is None:
            self.counters["refused.not-here"] += 1
            return
        self._carry_out(node, node.receive(sender, message, self.now()))

    def _received_data(self, to: PeerId, sender: Contact, frame: Frame) -> None:
        if self._on_data is None or to not in self._by_id:
            self.counters["refused.not-here"] += 1
            return
        self._on_data(to, sender, frame)

    def _link_lost(self, peer: PeerId, reason: str) -> None:
        for node in self.nodes:
            self._carry_out(node, node.link_lost(peer, reason, self.now()))

    def _link_observed(self, observation: Any) -> None:
        if isinstance(observation, LinkUp):
            self._cache.seen(observation.contacts)
        if isinstance(observation, LinkUp | LinkMember) and observation.is_member:
            self._news.set()
        if isinstance(observation, LinkDown) and self._stopping.is_set():
            return  # we take leave of everybody: whoever observes us knows
        self._tell(self.nodes[0].me.peer, observation)

    def _carry_out(self, node: OverlayNode, effects: Effects) -> None:
        """Do what a node asks, and then what that leads to between the nodes of this process."""
        for effect in effects:
            self._carry.get(type(effect), self._observed)(node, effect)
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._local:
                to, sender, message = self._local.popleft()
                self._carry_out(to, to.receive(sender, message, self.now()))
        finally:
            self._is_draining = False

    def _carry_send(self, node: OverlayNode, effect: Send) -> None:
        neighbour = self._by_id.get(effect.to.peer)
        if neighbour is not None:
            self._local.append((neighbour, node.me, effect.message))
        else:
            self._connections.send(node.me.peer, effect.to, effect.message)

    def _carry_later(self, node: OverlayNode, effect: Later) -> None:
        self._timers.set(effect.at, partial(self._wake, node), effect.event)

    def _wake(self, node: OverlayNode, event: Any) -> None:
        self._carry_out(node, node.wake(event, self.now()))

    def _carry_answer(self, node: OverlayNode, effect: Answer) -> None:
        waiting = self._waiting.get((node.me.peer, effect.request))
        if waiting is not None:
            is_answered, box = waiting
            box.append(effect.result)
            is_answered.set()

    async def _answer(self, node: OverlayNode, request: int, effects: Effects) -> Any:
        """Carry out the start of a request, and wait for its answer. The node bounds the wait."""
        place = (node.me.peer, request)
        is_answered, box = self._waiting[place] = (trio.Event(), [])
        try:
            self._carry_out(node, effects)
            await is_answered.wait()
            return box[0]
        finally:
            del self._waiting[place]

    # What the nodes observe.

    def _observed(self, node: OverlayNode, effect: Any) -> None:
        self.counters[f"event.{type(effect).__name__}"] += 1
        reaction = self._react.get(type(effect))
        if reaction is not None:
            reaction(node, effect)
        self._tell(node.me.peer, effect)

    def _tell(self, me: PeerId, effect: Any) -> None:
        for observer in self._observers:
            observer(me, effect)

    def _on_joined(self, node: OverlayNode, effect: Joined) -> None:
        self._member_ids.add(node.me.peer)
        self._news.set()
        if node is self.nodes[0]:
            self._connections.tell_membership(True)
        if len(self._member_ids) == len(self.nodes):
            self.joined.set()
        for other in self.nodes:
            if node is self.nodes[0] and other.me.peer not in self._member_ids:
                self._carry_out(other, other.join((node.me,), self.now()))

    def _on_leaves_changed(self, node: OverlayNode, effect: LeavesChanged) -> None:
        self._cache.seen(contact for contact in effect.gained if contact.peer not in self._by_id)
        self._news.set()

    def _on_denylist_changed(self, node: OverlayNode, effect: DenylistChanged) -> None:
        """One of our nodes heard of it: remember it, throw the denied out, and let the other nodes know."""
        if not self._identity.deny(effect.denylist):
            return
        self._connections.drop_distrusted()
        for each in self.nodes:
            self._carry_out(each, each.gossip.deny(effect.denylist))
            each.directory.drop_where(self._is_denied)

    def _is_denied(self, record: Record) -> bool:
        try:
            self._identity.read(record.certificate, self.now())
        except CredentialError as error:
            return error.reason == "revoked"
        return False

    def _on_refused(self, node: OverlayNode, effect: Refused) -> None:
        self.counters[f"refused.{effect.reason}"] += 1
