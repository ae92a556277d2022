"""Whose certificates no longer count: one list for the cluster, signed by its CA.

A certificate lives for months; a stolen device must be out within minutes. The CA signs the serials it
takes back, under a version that only grows, and gossip carries the list to everybody (`gossip.py`). Whoever
has two lists keeps the higher version, so an old list, replayed, brings nobody back.

    version (8 bytes) | serial (8 bytes) ... in rising order | signature of all that (64 bytes)

The shell keeps those bytes on disk and hands them in at the next start: a restart must not forget.
A serial may leave the list, in a later version, once its certificate has expired anyway.

Pure. Rejected: X.509 CRLs (ten times the bytes for dates and reasons that nobody here reads); asking the CA
(it is offline, in somebody's drawer); lists that merge by union (nobody could ever shorten one).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from overlay.certificates import Authority
from overlay.signing import SIGNATURE_BYTES, is_signed

SERIALS_MAX: Final = 4096
"""Most serials of one list: 32 KiB, so that a list still fits one control message with room to spare."""
DENYLIST_BYTES_MAX: Final = 8 + 8 * SERIALS_MAX + SIGNATURE_BYTES

_DOMAIN = "denylist"


class DenylistError(ValueError):
    """Bytes that are no denylist of our CA. `reason` is a short label for counters: "bad-denylist" or
    "forged"."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Denylist:
    """A list that was verified. `serial in denylist` is the question that it answers.

    >>> authority = Authority.create("attic", 1.8e9, days=10)
    >>> older = sign_denylist(authority, [7], version=1)
    >>> newer = sign_denylist(authority, [7, 9], version=2)
    >>> 9 in newer.merge(older), newer.merge(older) == older.merge(newer)
    (True, True)
    >>> read_denylist(newer.raw, authority_public_key=authority.public_key) == newer
    True
    """

    version: int
    serials: frozenset[int]
    raw: bytes

    def __contains__(self, serial: object) -> bool:
        return serial in self.serials

    def merge(self, other: "Denylist") -> "Denylist":
        """The higher version. Two lists of one version are the CA's mistake; then at least all choose the
        same."""
        return max(self, other, key=lambda it: (it.version, it.raw))


NOBODY: Final = Denylist(version=0, serials=frozenset(), raw=b"")
"""What a cluster starts with. It needs no signature, for it denies nobody and any signed list replaces it."""


def sign_denylist(authority: Authority, serials: Iterable[int], *, version: int) -> Denylist:
    """The CA's next list: *all* serials that it denies, under a version higher than any before."""
    chosen = frozenset(serials)
    if not 1 <= version < 1 << 64:
        raise ValueError(f"a denylist's version is from 1 to 2**64 - 1, not {version}")
    if len(chosen) > SERIALS_MAX:
        raise ValueError(f"{len(chosen)} serials, at most {SERIALS_MAX}: leave out those that have expired")
    body = b"".join(number.to_bytes(8, "big") for number in [version, *sorted(chosen)])
    return Denylist(version, chosen, body + authority.sign(_DOMAIN, body))


def read_denylist(raw: bytes, *, authority_public_key: bytes) -> Denylist:
    """The list in `raw`, if our CA signed it; otherwise `DenylistError`. No bytes at all are `NOBODY`."""
    if not raw:
        return NOBODY
    body, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
    if len(raw) > DENYLIST_BYTES_MAX or len(body) < 8 or len(body) % 8:
        raise DenylistError("bad-denylist", f"{len(raw)} bytes")
    if not is_signed(authority_public_key, _DOMAIN, body, signature):
        raise DenylistError("forged", "not signed by the CA of this cluster")
    version, *serials = (int.from_bytes(body[at : at + 8], "big") for at in range(0, len(body), 8))
    return Denylist(version, frozenset(serials), raw)
