"""Who this device is: three files in its data folder, and what follows from them.

    DATA/ca.pem  cert.pem  key.pem      made by `peer enroll`; the key is readable by its owner alone
    DATA/boot                           when the last life began, in ms
    DATA/denylist                       whose certificates the CA took back, as last heard
    DATA/insecure/...                   the same for `--insecure`, made here at the first start

An insecure peer has a certificate as well, of a CA that is the same for everybody and whose key is in this
very file. So all code above sees one kind of identity, and only TLS is left out. The folder of its own
makes sure that no worthless certificate is ever taken for a real one.

Rejected: an identity without certificates for `--insecure` (records could not be signed, and every layer
would have to know of it); a boot number that is only the wall clock (a device without a battery clock
starts in 1970, and its new life would seem older than the old one).
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

from overlay.certificates import (
    Authority,
    Credential,
    CredentialError,
    Issued,
    load_certificate,
    public_key_of,
    read_credential,
    to_der,
)
from overlay.connections_trio import Tls
from overlay.denylist import NOBODY, Denylist, DenylistError, read_denylist
from overlay.ids import PeerId
from overlay.records import RecordCheck, sign_record
from overlay.signing import Signer
from overlay.streams_trio import tls_context
from overlay.trust import Trust
from peer import places
from peer.complaint import Complaint

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

INSECURE_CLUSTER: Final = "insecure"
_INSECURE_SINCE_S: Final = 1.7e9
_INSECURE_DAYS: Final = 36500


@dataclass(slots=True)
class Identity:
    """What a running peer needs to know about itself."""

    folder: Path
    credential: Credential
    authority: "Certificate"
    signer: Signer
    tls: Tls | None
    """None for an insecure peer."""
    boot_ms: int
    check: RecordCheck
    denylist: Denylist = field(default=NOBODY)

    @property
    def cluster(self) -> str:
        return self.credential.cluster

    @property
    def peers(self) -> tuple[PeerId, ...]:
        return self.credential.peers

    def read(self, der: bytes, now: float) -> Credential:
        """Who holds this certificate, by our CA and our denylist; `CredentialError` if nobody does."""
        return self.check.credential(der, now)

    def trust(self) -> Trust:
        """What a node needs to know of all this."""
        return Trust(
            check=self.check,
            sign=partial(sign_record, signer=self.signer, certificate=self.credential.der),
            read_denylist=self.read_denylist,
            denylist=self.denylist,
        )

    def read_denylist(self, raw: bytes) -> Denylist:
        """The list in `raw`; `DenylistError` if our CA did not sign it."""
        return read_denylist(raw, authority_public_key=public_key_of(self.authority))

    def deny(self, denylist: Denylist) -> bool:
        """Obey this list from now on, also after a restart. True if it was news."""
        newest = self.denylist.merge(denylist)
        if newest == self.denylist:
            return False
        self.denylist = self.check.revoked = newest
        places.write(self.folder / "denylist", newest.raw, mode=places.PUBLIC_MODE)
        return True


def load_identity(data: Path, *, now: float) -> Identity:
    """The identity that `peer enroll` made; a `Complaint` if there is none, or it is of no use."""
    certificate_pem, key_pem = data / "cert.pem", data / "key.pem"
    if not certificate_pem.exists():
        raise Complaint(f"There is no identity in {data}.", "Make one with `peer enroll`, or use --insecure.")
    if key_pem.stat().st_mode & 0o077:
        raise Complaint(f"Others may read {key_pem}.", f"Run `chmod 600 {key_pem}`.")
    return _identity(data, now=now, is_secure=True)


def insecure_identity(data: Path, *, virtual_peers: int, now: float) -> Identity:
    """The identity for `--insecure`: as before, or a new one if there is none with so many peers."""
    folder = places.make_folder(data / "insecure")
    if (folder / "key.pem").exists():
        identity = _identity(folder, now=now, is_secure=False)
        if len(identity.peers) == virtual_peers:
            return identity
    authority = insecure_authority()
    issued = authority.issue(f"insecure-{os.getpid()}", "device", now, virtual_peers=virtual_peers, days=_INSECURE_DAYS)
    save_identity(folder, ca_pem=authority.certificate_pem, issued=issued)
    return _identity(folder, now=now, is_secure=False)


def save_identity(folder: Path, *, ca_pem: bytes, issued: Issued) -> None:
    """Write the three files, the key last: an identity is complete once its key is there."""
    places.make_folder(folder)
    places.write(folder / "ca.pem", ca_pem, mode=places.PUBLIC_MODE)
    places.write(folder / "cert.pem", issued.certificate_pem, mode=places.PUBLIC_MODE)
    places.write(folder / "key.pem", issued.key_pem, mode=places.SECRET_MODE)


def insecure_authority() -> Authority:
    """The CA that vouches for everybody, and so for nobody."""
    return Authority.create(INSECURE_CLUSTER, _INSECURE_SINCE_S, days=_INSECURE_DAYS, draw=_known_to_all())


def _known_to_all() -> Callable[[int], bytes]:
    count = 0

    def draw(size: int) -> bytes:
        nonlocal count
        count += 1
        return blake2b(b"shoal insecure %d" % count, digest_size=size).digest()

    return draw


def _identity(folder: Path, *, now: float, is_secure: bool) -> Identity:
    ca, certificate, key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
    try:
        authority = load_certificate(places.read(ca))
        credential = read_credential(to_der(places.read(certificate)), authority_certificate=authority, now=now)
        signer = Signer.load(places.read(key))
    except CredentialError as error:
        raise Complaint(f"{certificate} admits nobody: {error}.", "Run `peer enroll` again.") from None
    except ValueError as error:
        raise Complaint(f"The identity in {folder} is damaged: {error}.", "Run `peer enroll` again.") from None
    if signer.public_key != credential.public_key:
        raise Complaint(f"{key} does not belong to {certificate}.", "Copy both from one `peer enroll`.")
    if is_secure and public_key_of(authority) == insecure_authority().public_key:
        raise Complaint(f"{ca} is the CA of --insecure.", "Make a cluster of your own with `peer init`.")
    tls = None
    if is_secure:
        tls = Tls(
            *(
                tls_context(is_server=is_server, ca_file=ca, certificate_file=certificate, key_file=key)
                for is_server in (True, False)
            )
        )
    denylist = _kept_denylist(folder, authority)
    check = RecordCheck(authority, revoked=denylist)
    return Identity(folder, credential, authority, signer, tls, _next_boot_ms(folder), check, denylist)


def _kept_denylist(folder: Path, authority: "Certificate") -> Denylist:
    path = folder / "denylist"
    if not path.exists():
        return NOBODY
    try:
        return read_denylist(places.read(path), authority_public_key=public_key_of(authority))
    except DenylistError as error:
        raise Complaint(f"{path} is damaged: {error}.", "Delete it; the ring will tell the newest list.") from None


def _next_boot_ms(folder: Path) -> int:
    """When this life began: the wall clock, but never earlier than the last life."""
    path = folder / "boot"
    try:
        last_ms = int(path.read_text())
    except (OSError, ValueError):
        last_ms = 0
    boot_ms = max(int(time.time() * 1000), last_ms + 1)
    places.write(path, str(boot_ms).encode(), mode=places.PUBLIC_MODE)
    return boot_ms
