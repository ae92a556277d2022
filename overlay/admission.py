"""Decide who may talk to us.

TLS proves that the far end holds a key which our CA certified; it does not say which virtual peers run
there, of which cluster, in which life, or how many such connections are too many. So both sides introduce
themselves first: whoever dialled sends HELLO, the other answers WELCOME or TURNED_AWAY. Nobody is a peer
before that: with a foreign certificate the dialler's handshake *and* its first send succeed (NUMBERS.md).

    dialler  --Hello-->   acceptor    on_hello: Admitted or Refusal
    dialler  <--Welcome-- acceptor    on_welcome: Admitted or Refusal

Two devices that dial each other at once hold two connections, and keep both: each side sends on the one
that the device with the lower id dialled (`preferred`) and listens on both, so no message is lost, and the
other one ends by the idle limit. A device that restarted supersedes its old life, whose connections are
dropped.

A person with the certificate of an operator or a viewer may visit instead of introducing itself: it is let in for one
question (`on_visit`), is nobody's peer, and counts as a connection that has not said HELLO until it goes.

Promises: every connection is counted from `on_open` to `on_close`, per peer and per subnet, so nobody can
hold more than its share; a peer id is accepted only from the holder of a certificate that contains it.

Pure: connections are numbers, time is an argument, verdicts are values.
Rejected: closing one of two simultaneous connections at once (a message that was under way is lost);
admitting by TLS alone; banning addresses that misbehave (behind one NAT the innocent would go too).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from typing import Final

from overlay.certificates import VIRTUAL_PEERS_MAX, Credential, CredentialError
from overlay.contact import Contact
from overlay.ids import PeerId, short
from overlay.messages.session import PROTOCOL_VERSION, REASONS, Hello, Visit, Welcome

LOOPBACK_SUBNET: Final = "loopback"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections we hold. A TLS connection costs some 60 KiB."""

    connections_max: int = 512
    """In all. A ring of 10,000 peers gives each about 160 contacts; the rest is margin."""

    pending_max: int = 64
    """Not yet admitted. A burst of joins fits; a flood of half-open ones takes 4 MiB, no more."""

    per_peer_max: int = 4
    """Of one device: two that crossed each other, and their successors while the old ones still end."""

    per_subnet_max: int = 128
    """Of one /24 or /64. A flat LAN of a hundred devices fits; more means somebody counts on our memory."""

    per_loopback_max: int = 4096
    """Of this machine: whoever may open sockets here has better ways to harm us."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A connection speaks for `contacts` from now on. Those in `superseded` belong to an earlier life."""

    device: PeerId
    contacts: tuple[Contact, ...]
    is_member: bool
    superseded: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not. `reason` is one of `messages.session.REASONS`."""

    reason: str
    detail: str

    def __post_init__(self) -> None:
        assert self.reason in REASONS, self.reason


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person who may ask one question; what it may be depends on the role."""

    name: str
    role: str


VISITING_ROLES: Final = ("operator", "viewer")


@dataclass(slots=True)
class _Known:
    """What we know of one open connection."""

    subnet: str
    is_dialled: bool
    device: PeerId | None = None
    boot_ms: int = 0
    is_ending: bool = False
    credential: Credential | None = None
    contacts: tuple[Contact, ...] = field(default=())


Reader = Callable[[bytes, float], Credential]
"""Checks a certificate in DER at a time: `read_credential` with our CA and denylist, or `CredentialError`."""


class Admission:
    """The door of one process, for all of its virtual peers."""

    def __init__(
        self,
        *,
        cluster: str,
        contacts: tuple[Contact, ...],
        read: Reader | None,
        is_member: Callable[[], bool] = lambda: True,
        limits: Limits | None = None,
    ) -> None:
        """`read` is None in insecure mode: nothing is proved, and only this machine may enter."""
        assert contacts, "a process without peers has nobody to introduce"
        self._cluster = cluster
        self._contacts = contacts
        self._read = read
        self._is_member = is_member
        self._limits = limits or Limits()
        self._mine = frozenset(contact.peer for contact in contacts)
        self._me = min(self._mine)
        self._known: dict[int, _Known] = {}
        self._of_device: dict[PeerId, list[int]] = {}
        self._of_subnet: Counter[str] = Counter()

    def hello(self) -> Hello:
        return Hello(PROTOCOL_VERSION, self._cluster, self._is_member(), self._contacts)

    def welcome(self) -> Welcome:
        return Welcome(PROTOCOL_VERSION, self._cluster, self._is_member(), self._contacts)

    def on_open(self, connection: int, host: str, *, is_dialled: bool) -> Refusal | None:
        """A socket is open, and nothing was said on it yet. A refused one is not counted: just close it."""
        assert connection not in self._known
        subnet = subnet_of(host)
        if self._read is None and subnet != LOOPBACK_SUBNET:
            return Refusal("insecure-not-loopback", f"{host} is another machine: use certificates")
        if not is_dialled and (refusal := self._too_many(subnet)) is not None:
            return refusal
        self._known[connection] = _Known(subnet, is_dialled)
        self._of_subnet[subnet] += 1
        return None

    def _too_many(self, subnet: str) -> Refusal | None:
        limits = self._limits
        subnet_max = limits.per_loopback_max if subnet == LOOPBACK_SUBNET else limits.per_subnet_max
        if self._of_subnet[subnet] >= subnet_max:
            return Refusal("too-many-from-subnet", f"{subnet} has {subnet_max} connections")
        if len(self._known) >= limits.connections_max:
            return Refusal("too-many", f"{limits.connections_max} connections")
        if sum(known.device is None for known in self._known.values()) >= limits.pending_max:
            return Refusal("too-many-pending", f"{limits.pending_max} connections that have not said HELLO")
        return None

    def on_hello(self, connection: int, hello: Hello, *, certificate: bytes | None, now: float) -> Admitted | Refusal:
        return self._decide(connection, hello, certificate, now)

    def on_welcome(
        self, connection: int, welcome: Welcome, *, certificate: bytes | None, now: float
    ) -> Admitted | Refusal:
        return self._decide(connection, welcome, certificate, now)

    def on_visit(self, visit: Visit, *, certificate: bytes | None, now: float) -> Visitor | Refusal:
        """May this person ask us something?"""
        if self._read is None or certificate is None:
            return Refusal("no-certificate", "visitors must show a certificate; ask on the device itself")
        try:
            credential = self._read(certificate, now)
        except CredentialError as error:
            return Refusal(error.reason, error.detail)
        if visit.version != PROTOCOL_VERSION:
            return Refusal("version", f"protocol {visit.version}, we speak {PROTOCOL_VERSION}")
        if not visit.cluster == credential.cluster == self._cluster:
            return Refusal("wrong-cluster", f"{visit.cluster!r}, this is {self._cluster!r}")
        if credential.role not in VISITING_ROLES:
            return Refusal("bad-role", f"{credential.name} is a {credential.role}: an operator or a viewer may ask")
        return Visitor(credential.name, credential.role)

    def _decide(
        self, connection: int, said: Hello | Welcome, certificate: bytes | None, now: float
    ) -> Admitted | Refusal:
        known = self._known[connection]
        assert known.device is None, "a connection is admitted once"
        credential: Credential | None = None
        if self._read is not None:
            if certificate is None:
                return Refusal("no-certificate", "TLS without a certificate")
            try:
                credential = self._read(certificate, now)
            except CredentialError as error:
                return Refusal(error.reason, error.detail)
        refusal = self._about(said, credential)
        if refusal is not None:
            return refusal
        peers = credential.peers if credential else tuple(contact.peer for contact in said.contacts)
        return self._admit(connection, known, min(peers), said, credential)

    def _about(self, said: Hello | Welcome, credential: Credential | None) -> Refusal | None:
        """What is wrong with an introduction in itself."""
        peers = {contact.peer for contact in said.contacts}
        if said.version != PROTOCOL_VERSION:
            return Refusal("version", f"protocol {said.version}, we speak {PROTOCOL_VERSION}")
        if said.cluster != self._cluster or (credential and credential.cluster != self._cluster):
            return Refusal("wrong-cluster", f"{said.cluster!r}, this is {self._cluster!r}")
        if credential and credential.role == "viewer":
            return Refusal("bad-role", f"{credential.name} may look, not take part")
        if not 1 <= len(said.contacts) <= VIRTUAL_PEERS_MAX or len(peers) != len(said.contacts):
            return Refusal("bad-field", f"{len(said.contacts)} contacts, {len(peers)} ids")
        if any(not contact.host or not contact.port for contact in said.contacts):
            return Refusal("bad-field", "a contact without an address")
        if len({contact.boot_ms for contact in said.contacts}) != 1:
            return Refusal("bad-field", "one process has one boot time")
        if credential and not peers <= set(credential.peers):
            return Refusal("id-mismatch", f"{credential.name} claims an id that is not in its certificate")
        if peers & self._mine:
            return Refusal("self", "these ids are ours: dialled ourselves, or a copied data directory")
        if credential is None and any(subnet_of(each.host) != LOOPBACK_SUBNET for each in said.contacts):
            return Refusal("insecure-not-loopback", "a contact on another machine: use certificates")
        return None

    def _admit(
        self,
        connection: int,
        known: _Known,
        device: PeerId,
        said: Hello | Welcome,
        credential: Credential | None,
    ) -> Admitted | Refusal:
        contacts, boot_ms = said.contacts, said.contacts[0].boot_ms
        others = self._of_device.get(device, [])
        newest_ms = max((self._known[other].boot_ms for other in others), default=0)
        if boot_ms < newest_ms:
            return Refusal("duplicate", f"a later life of {short(device)} is connected")
        superseded = tuple(other for other in others if self._known[other].boot_ms < boot_ms)
        if len(others) - len(superseded) >= self._limits.per_peer_max:
            return Refusal("too-many-from-peer", f"{short(device)} has {len(others)} connections")
        known.device, known.boot_ms, known.contacts, known.credential = device, boot_ms, contacts, credential
        self._of_device.setdefault(device, []).append(connection)
        for other in superseded:
            self.on_ending(other)
        return Admitted(device, contacts, said.is_member, superseded)

    def on_ending(self, connection: int) -> None:
        """Nothing more is to be sent on this connection."""
        self._known[connection].is_ending = True

    def on_close(self, connection: int) -> None:
        known = self._known.pop(connection)
        self._of_subnet[known.subnet] -= 1
        if not self._of_subnet[known.subnet]:
            del self._of_subnet[known.subnet]
        if known.device is not None:
            others = self._of_device[known.device]
            others.remove(connection)
            if not others:
                del self._of_device[known.device]

    def preferred(self, device: PeerId) -> int | None:
        """The connection to send on: that of the lower id's dialling, the newest of several."""
        usable = [each for each in self._of_device.get(device, ()) if not self._known[each].is_ending]
        dials_are_preferred = self._me < device
        return max(usable, key=lambda each: (self._known[each].is_dialled == dials_are_preferred, each), default=None)

    def no_longer_trusted(self, now: float) -> list[tuple[int, str]]:
        """Connections whose certificate has expired or was revoked since they were admitted, and why."""
        found: list[tuple[int, str]] = []
        for connection, known in self._known.items():
            if known.credential is not None and self._read is not None:
                try:
                    self._read(known.credential.der, now)
                except CredentialError as error:
                    found.append((connection, error.reason))
        return found


def subnet_of(host: str) -> str:
    """The /24 or /64 of an address; a name that is no address is a subnet of its own.

    >>> [subnet_of(each) for each in ("192.168.7.9", "2001:db8::1", "127.0.0.5", "::ffff:10.0.0.1")]
    ['192.168.7.0/24', '2001:db8::/64', 'loopback', '10.0.0.0/24']
    """
    if host == "localhost":
        return LOOPBACK_SUBNET
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped if mapped is not None else address
    if address.is_loopback:
        return LOOPBACK_SUBNET
    bits = 8 if isinstance(address, IPv4Address) else 64
    first = type(address)(int(address) >> bits << bits)
    return f"{first}/{address.max_prefixlen - bits}"
