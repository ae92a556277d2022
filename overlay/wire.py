"""Messages as bytes, and nothing but the messages we know.

A message is a frozen dataclass whose fields are typed by *kinds*: a kind knows how to turn a value into what
msgpack can hold, and checks everything on the way back: type, range, length. On the wire a message is an
array `[tag, field, field, ...]`. Whatever is wrong with the bytes, the reader sees one exception, `WireError`,
with a short reason that the transport counts.

    @message(tag=7)
    @dataclass(frozen=True, slots=True)
    class Greeting:
        nonce: U64
        zone: Zone

Pure. Rejected: msgpack maps (twice the bytes, and a map bomb), ext types, and schema libraries that build
objects first and validate them afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgpack

from overlay.contact import Contact
from overlay.ids import ID_BYTES, Key, PeerId, from_bytes, to_bytes

T = TypeVar("T")
C = TypeVar("C", bound=type)

CONTROL_BYTES_MAX: Final = 64 * 1024
"""No control message is larger. A 1 MiB msgpack frame may grow to 80 MiB of objects; 64 KiB cannot pass 5."""
ELEMENTS_MAX: Final = 1024
"""No array in a control message is longer: the longest we send are a peer's table rows."""


class WireError(ValueError):
    """Bytes that are not one of our messages. `reason` is a short label for counters."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One type of field: how it goes into msgpack, and how it is checked when it comes out."""

    name: str
    pack: Callable[[T], Any]
    unpack: Callable[[Any], T]


def _bad(name: str, value: object) -> WireError:
    return WireError("bad-field", f"expected {name}, got {type(value).__name__} {str(value)[:40]!r}")


def uint(bits: int) -> Kind[int]:
    limit = 1 << bits
    name = f"an unsigned {bits}-bit integer"

    def unpack(value: Any) -> int:
        if type(value) is not int or not 0 <= value < limit:
            raise _bad(name, value)
        return value

    return Kind(name, lambda value: value, unpack)


def real(low: float, high: float) -> Kind[float]:
    name = f"a number from {low} to {high}"

    def unpack(value: Any) -> float:
        if type(value) is not float or not low <= value <= high:  # NaN fails both comparisons
            raise _bad(name, value)
        return value

    return Kind(name, lambda value: float(value), unpack)


def text(bytes_max: int) -> Kind[str]:
    name = f"text of at most {bytes_max} bytes"

    def unpack(value: Any) -> str:
        if type(value) is not str or len(value.encode()) > bytes_max:
            raise _bad(name, value)
        return value

    return Kind(name, lambda value: value, unpack)


def blob(bytes_max: int) -> Kind[bytes]:
    name = f"at most {bytes_max} bytes"

    def unpack(value: Any) -> bytes:
        if type(value) is not bytes or len(value) > bytes_max:
            raise _bad(name, value)
        return value

    return Kind(name, bytes, unpack)


def _unpack_flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _bad("true or false", value)
    return value


def one_of(*values: str) -> Kind[str]:
    name = "one of " + ", ".join(values)
    allowed = frozenset(values)

    def unpack(value: Any) -> str:
        if type(value) is not str or value not in allowed:
            raise _bad(name, value)
        return value

    return Kind(name, lambda value: value, unpack)


def listed(kind: Kind[T], most: int) -> Kind[tuple[T, ...]]:
    """At most `most` values of one kind. Too many is an error on both sides: ours to find before sending."""
    name = f"at most {most} times {kind.name}"

    def pack(values: tuple[T, ...]) -> list[Any]:
        if len(values) > most:
            raise WireError("too-many", f"{len(values)} values where {most} may be sent")
        return [kind.pack(value) for value in values]

    def unpack(value: Any) -> tuple[T, ...]:
        if type(value) is not list or len(value) > most:
            raise _bad(name, value)
        return tuple(kind.unpack(each) for each in value)

    return Kind(name, pack, unpack)


def optional(kind: Kind[T]) -> Kind[T | None]:
    return Kind(
        f"{kind.name} or nothing",
        lambda value: None if value is None else kind.pack(value),
        lambda value: None if value is None else kind.unpack(value),
    )


def struct(cls: type[T]) -> Kind[T]:
    """A nested record: a dataclass whose own fields are kinds, as an array without a tag."""
    kinds = kinds_of(cls)
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]

    def pack(value: T) -> list[Any]:
        return [kind.pack(getattr(value, name)) for kind, name in zip(kinds, names, strict=True)]

    def unpack(value: Any) -> T:
        if type(value) is not list or len(value) != len(kinds):
            raise _bad(f"the {len(kinds)} fields of {cls.__name__}", value)
        return cls(*(kind.unpack(each) for kind, each in zip(kinds, value, strict=True)))

    return Kind(cls.__name__, pack, unpack)


def kinds_of(cls: type) -> tuple[Kind[Any], ...]:
    """The kinds of a dataclass' fields, in order. A field without a kind is a mistake of ours."""
    hints = get_type_hints(cls, include_extras=True)
    kinds = []
    for field in fields(cls):
        hint = hints[field.name]
        assert get_origin(hint) is Annotated, f"{cls.__name__}.{field.name} has no kind"
        kind = get_args(hint)[1]
        assert isinstance(kind, Kind), f"{cls.__name__}.{field.name} has no kind"
        kinds.append(kind)
    return tuple(kinds)


def _unpack_key(value: Any) -> Key:
    if type(value) is not bytes or len(value) != ID_BYTES:
        raise _bad(f"an id of {ID_BYTES} bytes", value)
    return from_bytes(value)


def _unpack_contact(value: Any) -> Contact:
    if type(value) is not list or len(value) != 5:
        raise _bad("the 5 fields of a contact", value)
    peer, host, port, zone, boot_ms = value
    return Contact(
        PeerId(_unpack_key(peer)),
        _HOST.unpack(host),
        _PORT.unpack(port),
        zone=_ZONE.unpack(zone),
        boot_ms=_U64.unpack(boot_ms),
    )


_U64 = uint(64)
_HOST = text(255)
_PORT = uint(16)
_ZONE = text(64)
_KEY: Kind[Key] = Kind("an id", to_bytes, _unpack_key)
_PEER: Kind[PeerId] = Kind("a peer id", to_bytes, lambda value: PeerId(_unpack_key(value)))
_CONTACT: Kind[Contact] = Kind(
    "a contact", lambda it: [to_bytes(it.peer), it.host, it.port, it.zone, it.boot_ms], _unpack_contact
)

CONTACTS_MAX: Final = 64
"""Most contacts in one list: two leaf sets, or one row of the routing table."""

U16 = Annotated[int, uint(16)]
U32 = Annotated[int, uint(32)]
U64 = Annotated[int, _U64]
Flag = Annotated[bool, Kind("true or false", lambda value: value, _unpack_flag)]
Zone = Annotated[str, _ZONE]
Name = Annotated[str, text(128)]
Sentence = Annotated[str, text(1024)]
Seconds = Annotated[float, real(0.0, 1e12)]
WireKey = Annotated[Key, _KEY]
WirePeer = Annotated[PeerId, _PEER]
WirePeers = Annotated[tuple[PeerId, ...], listed(_PEER, CONTACTS_MAX)]
WireContact = Annotated[Contact, _CONTACT]
Contacts = Annotated[tuple[Contact, ...], listed(_CONTACT, CONTACTS_MAX)]


_BY_TAG: dict[int, tuple[type, tuple[Kind[Any], ...]]] = {}
_BY_CLASS: dict[type, tuple[int, tuple[Kind[Any], ...], tuple[str, ...]]] = {}


def message(*, tag: int) -> Callable[[C], C]:
    """Register a dataclass as a message. A tag is for ever: a retired one is never used again."""

    def register(cls: C) -> C:
        assert tag not in _BY_TAG, f"tag {tag} is taken by {_BY_TAG[tag][0].__name__}"
        kinds = kinds_of(cls)
        _BY_TAG[tag] = (cls, kinds)
        _BY_CLASS[cls] = (tag, kinds, tuple(field.name for field in fields(cls)))
        return cls

    return register


def messages() -> tuple[type, ...]:
    """Every registered message, by tag: for tests that must not forget one."""
    return tuple(_BY_TAG[tag][0] for tag in sorted(_BY_TAG))


def encode(it: object) -> bytes:
    """The bytes of a message. A message over the limit is refused here, not at the far end."""
    tag, kinds, names = _BY_CLASS[type(it)]
    raw: bytes = msgpack.packb([tag, *(kind.pack(getattr(it, name)) for kind, name in zip(kinds, names, strict=True))])
    if len(raw) > CONTROL_BYTES_MAX:
        raise WireError("oversize", f"{type(it).__name__} of {len(raw)} bytes, at most {CONTROL_BYTES_MAX}")
    return raw


def decode(raw: bytes | bytearray | memoryview) -> Any:
    """The message in `raw`, or `WireError`; never another exception, never more memory than a few MiB."""
    if len(raw) > CONTROL_BYTES_MAX:
        raise WireError("oversize", f"{len(raw)} bytes, at most {CONTROL_BYTES_MAX}")
    try:
        value = msgpack.unpackb(
            raw,
            raw=False,
            strict_map_key=True,
            max_array_len=ELEMENTS_MAX,
            max_map_len=0,
            max_ext_len=0,
            max_str_len=CONTROL_BYTES_MAX,
            max_bin_len=CONTROL_BYTES_MAX,
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise WireError("not-msgpack", str(error)[:80] or type(error).__name__) from None
    if type(value) is not list or not value or type(value[0]) is not int:
        raise _bad("an array that starts with a tag", value)
    known = _BY_TAG.get(value[0])
    if known is None:
        raise WireError("unknown-message", f"tag {value[0]}")
    cls, kinds = known
    if len(value) != len(kinds) + 1:
        raise WireError("bad-field", f"{cls.__name__} has {len(kinds)} fields, not {len(value) - 1}")
    return cls(*(kind.unpack(each) for kind, each in zip(kinds, value[1:], strict=True)))
